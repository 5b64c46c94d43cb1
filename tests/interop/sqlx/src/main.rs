//! hold: locks until standard input ends. try: 75 if somebody else has the lock.

use std::error::Error;
use std::io::{read_to_string, stdin};
use std::process::ExitCode;

use sqlx::postgres::{PgAdvisoryLock, PgConnectOptions};
use sqlx::{ConnectOptions, Either};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let connection = PgConnectOptions::new().connect().await?;
    let lock = PgAdvisoryLock::new("my_lock");
    if std::env::args().nth(1).as_deref() == Some("hold") {
        let guard = lock.acquire(connection).await?;
        println!("held");
        read_to_string(stdin())?;
        guard.release_now().await?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(match lock.try_acquire(connection).await? {
        Either::Left(guard) => {
            guard.release_now().await?;
            ExitCode::SUCCESS
        }
        Either::Right(_) => ExitCode::from(75),
    })
}
