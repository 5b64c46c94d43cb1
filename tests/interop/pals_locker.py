"""hold: locks until standard input ends. try: 75 if somebody else has the lock."""
import os
import sys

import pals

url = "postgresql+psycopg://{PGUSER}@/{PGDATABASE}?host={PGHOST}&port={PGPORT}".format(**os.environ)
lock = pals.Locker("app", url).lock("my_lock")
acquired = lock.acquire(blocking=sys.argv[1] == "hold")
if not acquired:
    sys.exit(75)
if sys.argv[1] == "hold":
    print("held", flush=True)
    sys.stdin.read()
lock.release()
