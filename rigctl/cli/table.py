"""Tables for a terminal: columns as wide as they need; in a narrow one the least needed go."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

GAP = "  "


class Fitted:
    """Columns that fit the width, with their texts; `head` and `rows` are lines."""

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]],
        width: int,
        *,
        right: Collection[str] = (),
        first_to_go: Iterable[str] = (),
    ) -> None:
        """`columns` name -> one text a row; `right` are set to the right."""
        self._right = frozenset(right)
        self._texts = columns
        self._sizes = {name: max(len(name), *map(len, one)) for name, one in columns.items() if one}
        for name in first_to_go:
            if sum(self._sizes.values()) + len(GAP) * (len(self._sizes) - 1) <= width:
                break
            self._sizes.pop(name, None)

    @property
    def head(self) -> str:
        """The columns' names."""
        return self._line({name: name for name in self._sizes})

    @property
    def rows(self) -> list[str]:
        """One line a row."""
        count = len(next(iter(self._texts.values()), ()))
        return [
            self._line({name: self._texts[name][place] for name in self._sizes})
            for place in range(count)
        ]

    def _line(self, cells: Mapping[str, str]) -> str:
        parts = [
            cell.rjust(self._sizes[name]) if name in self._right else cell.ljust(self._sizes[name])
            for name, cell in cells.items()
        ]
        return GAP.join(parts).rstrip()
