#!/usr/bin/env bash
# Installs a real SGLang 0.5.23 that runs on the CPU, and a tiny model for it to serve.
#
#   tests/real/install.sh DIR      makes DIR/venv and DIR/tiny-qwen3; about 3.5 GB and three minutes
#
# Run again, it does nothing unless the recipe (this folder) has changed. A half-made folder from an
# interrupted run is made anew. The default index's torch may be a CUDA build, which works here but
# is several times larger; RIGCTL_TORCH_INDEX names a further index that carries the CPU build.
set -euo pipefail

dir=${1:?usage: tests/real/install.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
recipe=("$here/install.sh" "$here/requirements.txt" "$here/make_tiny_model.py"
        "$here/sglang_cpu_stand_ins.py")

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/.install.lock"
flock 9 # two test runs may share one folder

stamp=$(cat "${recipe[@]}" | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$dir/.complete" 2>/dev/null)" = "$stamp" ]; then
  echo "real SGLang: complete in $dir"
  exit 0
fi

began=$SECONDS
rm -rf "$dir/.complete" "$dir/venv" "$dir/tiny-qwen3"
"$python" -m venv "$dir/venv"
pip=("$dir/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input)
echo "real SGLang: torch"
"${pip[@]}" ${RIGCTL_TORCH_INDEX:+--extra-index-url "$RIGCTL_TORCH_INDEX"} torch==2.13.0
# SGLang's own dependencies name CUDA-only wheels, so what a CPU run needs is listed by hand.
echo "real SGLang: the engine and what a CPU run of it imports"
"${pip[@]}" --no-deps sglang==0.5.23 --requirement "$here/requirements.txt"
site=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
cp "$here/sglang_cpu_stand_ins.py" "$site/"
echo 'import sglang_cpu_stand_ins' >"$site/sglang_cpu_stand_ins.pth"
echo "real SGLang: the tiny model"
"$dir/venv/bin/python" -W ignore "$here/make_tiny_model.py" "$dir/tiny-qwen3"
echo "$stamp" >"$dir/.complete"
echo "real SGLang: installed in $((SECONDS - began)) s, $(du -sh "$dir" | cut -f 1) in $dir"
