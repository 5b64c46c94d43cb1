"""hold: locks until standard input ends. try: 75 if somebody else has the lock."""
import os
import sys

import django
from django.conf import settings

database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ["PGDATABASE"],
    "USER": os.environ["PGUSER"],
    "HOST": os.environ["PGHOST"],
    "PORT": os.environ["PGPORT"],
}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["pgactivity", "pglock"])
django.setup()

import pglock  # noqa: E402

if sys.argv[1] == "hold":
    with pglock.advisory("my_lock"):
        print("held", flush=True)
        sys.stdin.read()
else:
    with pglock.advisory("my_lock", timeout=0) as acquired:
        sys.exit(0 if acquired else 75)
