"""Properties that are computed once for each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """What `functools.cached_property` is from Python 3.12 on: without a lock that all objects of a class share.

    For properties whose computing writes records. With that lock a thread which waits for the records, in the property
    of one object, holds up another which has the records and needs the property of its own object. Two threads may
    compute the value of one object; both get the one that was there first.

    >>> class Circle:
    ...     radius = 2
    ...
    ...     @cached_property
    ...     def width(self) -> int:
    ...         return 2 * self.radius
    >>> circle = Circle()
    >>> circle.width, vars(circle)
    (4, {'width': 4})
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value: T = vars(instance).setdefault(self._name, self._compute(instance))
        return value
