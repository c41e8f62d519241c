"""
Which znode paths a server takes.

Source: ZooKeeper 3.8, ``PathUtils.validatePath``, ``PrepRequestProcessor``.
"""

import re

from zkcoord.server.codes import Code, OperationError

#: Nodes of the server itself, which nobody can delete.
SPECIAL_PATHS = frozenset({"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"})

# Java looks at UTF-16: whatever is beyond U+FFFF comes as two surrogates, which are refused.
_BAD = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]|//|/\\.\\.?(?:/|$)")


def check_path(path: str) -> None:
    """
    Check the form of a whole path.

    Raises:
        OperationError: bad arguments.
    """
    if path == "/":
        return
    if not path.startswith("/") or path.endswith("/") or _BAD.search(path):
        raise OperationError(Code.BAD_ARGUMENTS)


def parent_of(path: str) -> str:
    """
    Return what stands before the last slash: "" for a child of the root.

    Raises:
        OperationError: bad arguments: no slash, or a NUL.
    """
    slash = path.rfind("/")
    if slash == -1 or "\0" in path:
        raise OperationError(Code.BAD_ARGUMENTS)
    return path[:slash]
