//! What `examples/` shows is run as it stands, by the software it is for as far as that runs on one machine.

mod ansible;
mod ci;
mod crontab;
mod database;
mod kubernetes;
mod migrations;
mod systemd;
mod tools;
