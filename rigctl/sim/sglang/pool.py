"""The KV pool and its prefix cache: used, cached and free add up to the whole, always."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from rigctl.sim.sglang.prompts import Piece


@dataclass(eq=False, slots=True)
class Node:
    """A cached run of tokens after its parent's."""

    piece: Piece
    parent: Node | None
    children: dict[bytes, Node] = field(default_factory=dict)
    locks: int = 0
    """Running requests whose prefix goes through here."""
    used: int = 0
    """When it was last part of a prompt."""


class KvPool:
    """A radix tree of pieces over a fixed number of token slots; least recently used goes first."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.pinned = 0
        """Tokens running requests hold: locked prefixes and their own."""
        self.cached = 0
        """Evictable tokens."""
        self.evicted = 0
        self._root = Node(Piece(b"", 0), None)
        self._tick = 0

    @property
    def free(self) -> int:
        return self.total - self.pinned - self.cached

    def match(self, pieces: Sequence[Piece]) -> list[Node]:
        """The longest cached prefix, never the whole prompt: one token is always computed."""
        node, path = self._root, []
        for piece in pieces[:-1] if pieces else []:
            child = node.children.get(piece.key)
            if child is None or child.piece.tokens != piece.tokens:
                break
            path.append(child)
            node = child
        return path

    def lock(self, path: Sequence[Node]) -> None:
        """Pin a prefix for a running request."""
        self._tick += 1
        for node in path:
            if node.locks == 0:
                self.cached -= node.piece.tokens
                self.pinned += node.piece.tokens
            node.locks += 1
            node.used = self._tick

    def unlock(self, path: Sequence[Node]) -> None:
        """The request is done with its prefix: it stays, evictable."""
        for node in path:
            node.locks -= 1
            if node.locks == 0:
                self.pinned -= node.piece.tokens
                self.cached += node.piece.tokens

    def take(self, tokens: int) -> bool:
        """Pin fresh slots, evicting where needed; False and unchanged when there are not enough."""
        if tokens > self.free + self.cached:
            return False
        self._evict(tokens - self.free)
        self.pinned += tokens
        return True

    def give(self, tokens: int) -> None:
        """Return fresh slots."""
        self.pinned -= tokens

    def keep(self, pieces: Sequence[Piece]) -> None:
        """Cache these tokens (their slots were given back just now), as far as room is free."""
        self._tick += 1
        node = self._root
        for piece in pieces:
            child = node.children.get(piece.key)
            if child is None:
                if piece.tokens > self.free:
                    return
                child = node.children[piece.key] = Node(piece, node)
                self.cached += piece.tokens
            child.used = self._tick
            node = child

    def flush(self) -> None:
        """Forget every cached prefix; only when nothing runs."""
        self._root.children.clear()
        self.cached = 0

    def _evict(self, tokens: int) -> None:
        if tokens <= 0:
            return
        leaves = [(node.used, number, node) for number, node in enumerate(self._leaves())]
        heapq.heapify(leaves)
        while tokens > 0 and leaves:
            _, number, leaf = heapq.heappop(leaves)
            parent = leaf.parent
            assert parent is not None
            del parent.children[leaf.piece.key]
            self.cached -= leaf.piece.tokens
            self.evicted += leaf.piece.tokens
            tokens -= leaf.piece.tokens
            if parent is not self._root and not parent.children and parent.locks == 0:
                heapq.heappush(leaves, (parent.used, number, parent))

    def _leaves(self) -> list[Node]:
        found, todo = [], list(self._root.children.values())
        while todo:
            node = todo.pop()
            if node.children:
                todo.extend(node.children.values())
            elif node.locks == 0:
                found.append(node)
        return found
