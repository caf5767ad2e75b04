"""The ledger's tables, the views that show it to people, and how an older ledger is brought up to date."""

import sqlalchemy as sa

from blocks.errors import LedgerError

_metadata = sa.MetaData()

version = sa.Table("ledger_version", _metadata, sa.Column("version", sa.Integer, nullable=False))

entries = sa.Table(
    "entries",
    _metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("at_us", sa.BigInteger, nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.UniqueConstraint("kind", "key"),
    sa.Index("entries_by_subject", "kind", "subject", "seq"),
)

_VIEWS = {
    "plans": ("plan", ("id", "revision", "parent", "objective", "mandate_hash", "hash")),
    "runs": ("run", ("plan", "revision", "account", "broker", "as_of", "dry_run")),
    "outcomes": ("outcome", ("state", "message")),
    "steps": ("step", ("step", "tool", "state", "result", "message")),
    "results": ("result", ("kind", "as_of", "expires_at", "snapshot")),
    "verdicts": ("verdict", ("plan", "revision", "approved", "proposal_hash")),
    "intents": ("intent", ("plan", "revision", "account", "symbol", "side", "quantity", "limit")),
    "orders": ("order", ("state", "filled", "price", "message")),
    "fills": ("fill", ("order_ref", "symbol", "side", "quantity", "price", "commission", "at")),
}


def _first_version(connection: sa.Connection) -> None:
    _metadata.create_all(connection)
    for act in ("update", "delete"):
        connection.exec_driver_sql(
            f"create trigger entries_no_{act} before {act} on entries "
            f"begin select raise(abort, 'entries is append-only'); end"
        )
    for view, (kind, fields) in _VIEWS.items():
        columns = ", ".join(f"""json_extract(body, '$."{field}"') as "{field}\"""" for field in fields)
        when = "strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1e6, 'unixepoch') as recorded_at"
        connection.exec_driver_sql(
            f"create view {view} as select seq, {when}, \"key\", subject, {columns} from entries where kind = '{kind}'"  # noqa: S608
        )


_MIGRATIONS = (_first_version,)


def migrate(connection: sa.Connection) -> None:
    """Bring the ledger to this program's version, in the caller's transaction. Raises LedgerError if it is newer."""
    known = 0
    if sa.inspect(connection).has_table("ledger_version"):
        known = int(connection.scalar(sa.select(version.c.version)) or 0)
    if known > len(_MIGRATIONS):
        raise LedgerError(
            f"the ledger is of version {known}; this program knows up to {len(_MIGRATIONS)}: use the newer Tradewright"
        )
    for number, step in enumerate(_MIGRATIONS[known:], start=known + 1):
        step(connection)
        connection.execute(sa.delete(version))
        connection.execute(sa.insert(version).values(version=number))
