// hold: migrates, and keeps the migration open until standard input ends. try: 75 if somebody else migrates.
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { runner } from "node-pg-migrate";

const directory = mkdtempSync(join(tmpdir(), "migrations-"));
if (process.argv[2] === "hold") {
  writeFileSync(
    join(directory, "1_wait.mjs"),
    `export const up = async () => {
      console.log("held");
      for await (const _ of process.stdin);
    };`,
  );
}
const client = new pg.Client();
await client.connect();
try {
  await runner({
    dbClient: client,
    dir: directory,
    direction: "up",
    migrationsTable: "pgmigrations",
    checkOrder: false,
    log: () => {},
  });
} catch (error) {
  if (!/already running/.test(error.message)) throw error;
  process.exitCode = 75;
} finally {
  await client.end();
}
