"""hold: locks until standard input ends. try: 75 if somebody else has the lock."""
import os
import sys

from sqlalchemy import create_engine
from sqlalchemy_dlock import create_sadlock

url = "postgresql+psycopg://{PGUSER}@/{PGDATABASE}?host={PGHOST}&port={PGPORT}".format(**os.environ)
with create_engine(url).connect() as connection:
    lock = create_sadlock(connection, "my_lock")
    if not lock.acquire(block=sys.argv[1] == "hold"):
        sys.exit(75)
    if sys.argv[1] == "hold":
        print("held", flush=True)
        sys.stdin.read()
    lock.release()
