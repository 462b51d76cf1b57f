//! Runs one payment once, however often this is started with the same order.
//!
//! ```text
//! cargo run -p idem-client --example run_once -- redis://127.0.0.1:6379 order-17 1200
//! ```
//!
//! Prints `executed`, `replayed`, `pending` or `conflict`, and the receipt. Started again with the same order it replays;
//! with another amount it is a conflict. The end is 0 when there is a receipt, 1 otherwise.

use std::error::Error;
use std::process::ExitCode;

use idem_client::{IdempotentExecutor, Outcome, OwnerToken, RedisStore};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, order, amount] = arguments.as_slice() else {
        eprintln!("run_once STORE ORDER AMOUNT");
        return Ok(ExitCode::from(2));
    };
    let amount: u64 = amount.parse()?;
    let once = IdempotentExecutor::builder(RedisStore::open(store.as_str())?, "example:charge:").build()?;

    // The order names the operation, the amount is what exactly is asked for. Here it is short; of a whole request pass a
    // digest.
    let fingerprint = format!("amount={amount}");
    let outcome = once
        .execute_once(order, &fingerprint, None, || charge(amount))
        .await?;
    Ok(match outcome {
        Outcome::Executed { value, stored } => {
            println!("executed {value}");
            if !stored {
                eprintln!("not stored: the record ended before the work did; a repeat would charge again");
            }
            ExitCode::SUCCESS
        }
        Outcome::Replayed { value } => {
            println!("replayed {value}");
            ExitCode::SUCCESS
        }
        Outcome::Pending => {
            println!("pending");
            ExitCode::FAILURE
        }
        Outcome::Conflict => {
            println!("conflict");
            ExitCode::FAILURE
        }
    })
}

/// Stands for the call of another system. That one may be called twice all the same (this process can die right after
/// it), so a real one is given a key of its own, made from the order.
async fn charge(amount: u64) -> Result<String, idem_client::Error> {
    let token = OwnerToken::random()?;
    let id = String::from_utf8_lossy(&token.as_bytes()[..8]).into_owned();
    Ok(format!("receipt {id} over {amount}"))
}
