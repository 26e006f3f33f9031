

# What follows is Nearside's; tests/emulator/setup.sh puts it behind moto's DynamoDB backend.
#
# A transaction here copies the tables that it names, writes, and puts the copies back if a condition fails. With several
# at once, one that is refused takes back what others had been answered was written, and readers see halves. So one call at a
# time. And the copy is of the places of items, which a Put replaces, not of the items: else a write costs as much as
# everything that was written before. (An Update in a transaction changes its item in place; Nearside has none.)
def _one_at_a_time() -> None:
    import collections
    import functools
    import threading

    lock = threading.RLock()

    def alone(method: Any) -> Any:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return method(*args, **kwargs)

        return call

    def with_places(table: Table, _memo: Any) -> Table:
        same = Table.__new__(Table)
        same.__dict__.update(table.__dict__)
        places = {key: dict(at) if isinstance(at, dict) else at for key, at in table.items.items()}
        same.items = collections.defaultdict(dict, places)
        return same

    Table.__deepcopy__ = with_places  # type: ignore[attr-defined]
    for name in ("put_item", "update_item", "delete_item", "transact_write_items", "get_item", "query", "scan"):
        setattr(DynamoDBBackend, name, alone(getattr(DynamoDBBackend, name)))


_one_at_a_time()
