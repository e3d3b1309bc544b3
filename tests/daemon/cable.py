"""A cable between a daemon and a server, which a test can cut, freeze and mend."""

import contextlib
import select
import socket
import threading


class Cable:
    """Forwards TCP connections to a port of this machine, each way, as long as it is whole."""

    def __init__(self, port: int) -> None:
        self._far_port = port
        self._near = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._near.getsockname()[1]
        #: Both ends of each connection, by either.
        self._other: dict[socket.socket, socket.socket] = {}
        #: All that came from the near ends.
        self.sent = b""
        self._whole = threading.Event()
        self._whole.set()
        self._guard = threading.Lock()
        self._bell, self._ring = socket.socketpair()
        self._closing = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def freeze(self) -> None:
        """Forward nothing any more; neither end notices. New connections come to nothing."""
        self._whole.clear()
        self._ring.send(b"!")

    def end_far(self) -> None:
        """Shut down the connections to the far server, so that it frees the resources bound to them."""
        with self._guard:
            ends = [end for end in self._other if end.getpeername()[1] == self._far_port]
            for end in ends:
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Forward nothing any more; both ends notice."""
        self.freeze()
        self._end_all()

    def mend(self) -> None:
        """Be whole again; the connections from before are gone."""
        self._end_all()
        self._whole.set()
        self._ring.send(b"!")

    def close(self) -> None:
        """End all."""
        self._closing = True
        self._ring.send(b"!")
        self._thread.join()
        self._end_all()
        for each in (self._near, self._bell, self._ring):
            each.close()

    def _end_all(self) -> None:
        with self._guard:
            ends, self._other = list(self._other), {}
            for end in ends:
                end.close()

    def _serve(self) -> None:
        while not self._closing:
            with self._guard:
                ends = [*self._other, self._near] if self._whole.is_set() else []
            # An end that another thread closes in between is not there any more the next time.
            with contextlib.suppress(OSError, ValueError):
                ready, _, _ = select.select([self._bell, *ends], [], [], 1.0)
                for end in ready:
                    self._attend(end)

    def _attend(self, end: socket.socket) -> None:
        if end is self._bell:
            end.recv(64)
        elif end is self._near:
            near, _ = end.accept()
            far = socket.create_connection(("127.0.0.1", self._far_port))
            with self._guard:
                self._other |= {near: far, far: near}
        else:
            with contextlib.suppress(OSError, KeyError):
                if data := end.recv(65536):
                    self._other[end].sendall(data)
                    if end.getpeername()[1] != self._far_port:
                        self.sent += data
                    return
            self._drop(end)

    def _drop(self, end: socket.socket) -> None:
        with self._guard:
            if other := self._other.pop(end, None):
                del self._other[other]
                other.close()
                end.close()
