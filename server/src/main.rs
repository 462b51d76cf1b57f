//! The daemon: flags and glue. What it does is in the library.

use std::io::Write;
use std::process::ExitCode;

use idem_server::config::{self, Flags, cli};
use idem_server::exit::Exit;
use idem_server::logging::{self, Levels};
use idem_server::startup::{self, Ready, Settings};
use tokio::runtime::LocalOptions;

/// Many small entries that come and go: resident memory stays close to what is in use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run().into()
}

fn run() -> Exit {
    let flags = match Flags::parse(std::env::args_os()) {
        Ok(flags) => flags,
        Err(error) => {
            // Help and version are no mistakes, and go to stdout; a closed pipe there is none either.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Clean
            };
        }
    };
    if let Some(what) = flags.generate() {
        return match cli::generate(what, &mut std::io::stdout()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                complain(Exit::Failure, &error.to_string())
            }
            Ok(()) | Err(_) => Exit::Clean,
        };
    }
    let options = match config::load(&flags) {
        Ok(options) => options,
        Err(error) => return complain(Exit::Usage, &error.to_string()),
    };
    let levels = logging::install(options.log_level, options.log_format);
    end_on_panic();
    for warning in config::warnings(&options) {
        tracing::warn!("{warning}");
    }
    let settings = match settings(&flags, levels) {
        Ok(settings) => settings,
        Err(error) => return complain(Exit::Usage, &error),
    };
    use_small_pages();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = match builder.enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime,
        Err(error) => return complain(Exit::Failure, &format!("no runtime: {error}")),
    };
    // As a task like the connections: what the runtime waits for itself, it wakes through the kernel.
    let serving = runtime.spawn_local(async move {
        match startup::start(&options, &settings) {
            Ok(started) => startup::serve(started, announce).await,
            Err(error) => complain(error.exit, &error.message),
        }
    });
    let exit = match runtime.block_on(serving) {
        Ok(exit) => exit,
        Err(error) => complain(Exit::Failure, &format!("the server ended: {error}")),
    };
    // Threads that still wait for the disk are not waited for: what they do is safe to leave at any point.
    runtime.shutdown_background();
    exit
}

/// No huge pages for this process, as Redis does it. A record more can be the first on a new page, and the kernel clears
/// 2 MiB before it goes on: where the host has to find that memory first, everybody waited 5 ms, twenty times a second.
fn use_small_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("transparent huge pages stay as they are: {error}");
    }
}

/// One line on stderr, whatever the log level: why the process ends.
fn complain(exit: Exit, message: &str) -> Exit {
    let _ = writeln!(std::io::stderr(), "idemd: {message}");
    exit
}

/// The ready line. Whoever started us may have closed stdout; that is no reason to stop.
fn announce(ready: &Ready) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{ready}").and_then(|()| out.flush());
    tracing::info!("{ready}");
}

/// A panic is a bug, and on the wal thread it would leave a server that answers reads and never syncs again: the process
/// ends, and the next start reads what is on disk.
fn end_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        idem_server::exit::end_at_once("a thread panicked");
    }));
}

#[cfg(not(feature = "sabotage"))]
fn settings(flags: &Flags, levels: Levels) -> Result<Settings, String> {
    Ok(Settings {
        config_file: flags.config().cloned(),
        levels,
    })
}

/// DELIBERATELY BROKEN builds: the environment says how.
#[cfg(feature = "sabotage")]
fn settings(flags: &Flags, levels: Levels) -> Result<Settings, String> {
    use idem_server::startup::Sabotage;
    let mut sabotage = Sabotage::default();
    let word = std::env::var("IDEM_SABOTAGE").unwrap_or_default();
    match word.as_str() {
        "" => {}
        "reply-before-sync" => sabotage.node = idem_engine::Sabotage::ReplyBeforeSync,
        "message-before-sync" => sabotage.node = idem_engine::Sabotage::MessageBeforeSync,
        "no-directory-sync" => sabotage.no_directory_sync = true,
        "deadline-in-second-record" => sabotage.node = idem_engine::Sabotage::DeadlineInSecondRecord,
        _ => {
            return Err(format!(
                "IDEM_SABOTAGE: `{word}` is no known way to break this build"
            ));
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "*** DELIBERATELY BROKEN BUILD (feature `sabotage`, IDEM_SABOTAGE={word}): IT LOSES DATA. FOR TESTS ONLY. ***"
    );
    Ok(Settings {
        config_file: flags.config().cloned(),
        levels,
        sabotage,
    })
}
