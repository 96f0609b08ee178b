"""Rows of a database, PostgreSQL or SQLite, that a query gives: written as lines of JSON. The only door to SQLAlchemy.

A connection only reads. Its password, in the address or where libpq finds it (PGPASSWORD, ~/.pgpass), is in no message.
"""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pipelines.core.errors import InputError, NoFileError, UsageError, one_line, printable, shown

SCHEMES = ("postgresql", "sqlite")
EXPECTED = "postgresql://USER@HOST/DATABASE or sqlite:///FILE is expected"
CONNECT_SECONDS = 10
ROWS_AT_ONCE = 1_000


class Database:
    """A database at an address as SQLAlchemy writes it. Raises UsageError for an address of another form."""

    def __init__(self, address: str) -> None:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        scheme = address.partition("://")[0]
        try:
            url = make_url(address)
        except (ArgumentError, ValueError):  # such as a port that is no number
            raise UsageError(f"{scheme}: {EXPECTED}") from None
        self._kind = url.get_backend_name()
        if self._kind not in SCHEMES or not url.database or url.database == ":memory:":
            raise UsageError(f"{scheme}: {EXPECTED}")
        self._url = url.set(drivername=self._kind)  # with its usual driver
        self.database = url.database

    def __str__(self) -> str:
        """The address without the user, the password and options."""
        if self._kind == "sqlite":
            return printable(f"sqlite:///{self.database}")
        port = f":{self._url.port}" if self._url.port else ""
        return printable(f"{self._kind}://{self._url.host or ''}{port}/{self.database}")

    def write(self, query: str, file: Path) -> None:
        """Write the rows of a query to `file`, a JSON object a line, in the order in which the database gives them.

        Raises InputError if the database does not answer, refuses the query, or gives no row, and for values that
        JSON cannot have.
        """
        from sqlalchemy.exc import SQLAlchemyError

        with self._connection() as connection, file.open("w", encoding="utf-8") as out:
            try:
                for record in self._records(connection, query):
                    out.write(json.dumps(record, ensure_ascii=False, default=str, allow_nan=False) + "\n")
            except (SQLAlchemyError, sqlite3.Warning, UnicodeError) as error:
                raise InputError(f"{self}: the query fails ({self._plain(error)})") from None
        if not file.stat().st_size:
            raise InputError(f"{self}: the query gives no row")

    def _connection(self) -> Any:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import SQLAlchemyError
        from sqlalchemy.pool import NullPool

        if self._kind == "sqlite":
            if not Path(self.database).is_file():
                raise NoFileError(f"{self}: no such file")
            place = f"file:{quote(str(Path(self.database).resolve()))}?mode=ro"
            engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(place, uri=True), poolclass=NullPool)
        else:
            engine = create_engine(self._url, connect_args={"connect_timeout": CONNECT_SECONDS}, poolclass=NullPool)
        try:
            connection = engine.connect()
        except (SQLAlchemyError, UnicodeError) as error:
            raise InputError(f"{self}: no connection ({self._plain(error)})") from None
        return connection if self._kind == "sqlite" else connection.execution_options(postgresql_readonly=True)

    def _records(self, connection: Any, query: str) -> Iterator[dict[str, Any]]:
        # a query without parameters: its signs %% and : are its own
        options = {"no_parameters": True, "stream_results": True, "yield_per": ROWS_AT_ONCE}
        result = connection.exec_driver_sql(query, execution_options=options)
        if not result.returns_rows:
            raise UsageError(f"{self}: the query gives no rows; a SELECT is expected")
        names = [*result.keys()]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise UsageError(f"{self}: two columns of the query are named {shown(twice[0])}; rename one by AS")
        for number, row in enumerate(result, start=1):
            cells = dict(zip(names, row, strict=True))
            yield {name: self._cell(value, f"row {number}: {name}") for name, value in cells.items()}

    def _cell(self, value: Any, place: str) -> Any:
        """A value as JSON has it: text for dates and exact numbers, null for NaN."""
        if isinstance(value, bytes | memoryview):
            raise InputError(f"{self}: {place}: bytes; convert them to text in the query, or leave the column out")
        if isinstance(value, float) and math.isinf(value):
            raise InputError(f"{self}: {place}: {value}; a finite number is expected")
        return None if isinstance(value, float) and math.isnan(value) else value

    def _plain(self, error: Exception) -> str:
        """The message of the database on one line, without a password."""
        message = str(getattr(error, "orig", None) or error)
        options = [value for name, value in self._url.query.items() if "password" in name and isinstance(value, str)]
        for secret in filter(None, [self._url.password, *options]):
            message = message.replace(secret, "***")
        return one_line(message)
