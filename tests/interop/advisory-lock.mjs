// hold: locks until standard input ends. try: 75 if somebody else has the lock.
import { createRequire } from "node:module";

const { default: advisoryLock } = createRequire(import.meta.url)("advisory-lock");
const mutex = advisoryLock(`postgres:///${process.env.PGDATABASE}`)("my_lock");
if (process.argv[2] === "hold") {
  const unlock = await mutex.lock();
  console.log("held");
  for await (const _ of process.stdin);
  await unlock();
} else {
  const unlock = await mutex.tryLock();
  if (unlock) await unlock();
  else process.exitCode = 75;
}
