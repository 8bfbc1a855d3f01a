"""An SGLang server made of numbers: it speaks, logs, stalls, drains and dies like SGLang 0.5.23."""
