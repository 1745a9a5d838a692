"""Frames between a node and its Python processes.

A frame is the length of what follows, 4 bytes big-endian, and a JSON object in
UTF-8. Bulk data goes through files that a frame names, never through it.
"""
from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any, Dict, Optional

LIMIT = 16 << 20  # bytes of one frame's JSON
_LENGTH = struct.Struct(">I")


class FrameTooLong(ValueError):
    """A message of more than LIMIT bytes."""


class Channel:
    """One connection to the node. One thread at a time may send, one receive."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: Dict[str, Any]) -> None:
        """Send one object. ValueError, and nothing sent: NaN or Inf in it, or
        more than LIMIT bytes (FrameTooLong)."""
        body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
        if len(body) > LIMIT:
            raise FrameTooLong(f"a message of {len(body)} bytes, limit {LIMIT}")
        self.sock.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self) -> Optional[Dict[str, Any]]:
        """Wait for one object; None when the node has closed the connection."""
        head = self._exactly(_LENGTH.size)
        if head is None:
            return None
        (size,) = _LENGTH.unpack(head)
        if size > LIMIT:
            raise FrameTooLong(f"a frame of {size} bytes, limit {LIMIT}")
        body = self._exactly(size)
        return None if body is None else json.loads(body)

    def _exactly(self, size: int) -> Optional[bytes]:
        chunks, missing = [], size
        while missing:
            try:
                chunk = self.sock.recv(min(missing, 1 << 20))
            except ConnectionError:
                return None
            if not chunk:
                return None
            chunks.append(chunk)
            missing -= len(chunk)
        return b"".join(chunks)


def connect(role: str, token: str) -> Channel:
    """Connect to the node's socket ($TROUPE_SOCKET) and say who comes."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(os.environ["TROUPE_SOCKET"])
    channel = Channel(sock)
    channel.send({"role": role, "token": token, "pid": os.getpid()})
    return channel
