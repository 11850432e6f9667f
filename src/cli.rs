//! Arguments become a command, and a command an exit code: 0, 64 for arguments that are wrong, 78
//! for a configuration that is, 1 for any other failure.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{self, Config, Flags, Problems};
use crate::instruments::render::{Form, render};
use crate::run;

/// It did what it was asked to.
pub const SUCCESS: u8 = 0;
/// It failed while it ran.
pub const FAILURE: u8 = 1;
/// The arguments are wrong (`EX_USAGE`).
pub const USAGE: u8 = 64;
/// The configuration is wrong (`EX_CONFIG`).
pub const CONFIGURATION: u8 = 78;

/// Threads of the runtime: watching and serving each have one.
const WORKERS: usize = 2;
/// How long the end of the process waits for what blocks.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Availability, interruptions, recovery and provisioning of accelerator fleets on Kubernetes, as
/// OpenTelemetry metrics.
#[derive(Debug, Parser)]
#[command(name = "megamon", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a cluster, and publish its fleet to Prometheus and OTLP.
    Run(Box<Run>),
    /// Check, migrate or explain the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// List every metric that is published.
    Catalog {
        /// Form of the list.
        #[arg(long, value_enum, default_value_t = CatalogFormat::Table)]
        format: CatalogFormat,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say everything that is wrong with a configuration file; exit with 78 if anything is.
    Check {
        /// The file, YAML or JSON.
        file: PathBuf,
    },
    /// Turn the config.json of the Go program that this one replaces into YAML on standard output,
    /// and say on standard error what could not be carried over.
    Migrate {
        /// The old file.
        #[arg(value_name = "OLD.json")]
        file: PathBuf,
    },
    /// Print the table of all settings in Markdown.
    Reference,
}

/// Each flag comes before its environment variable, and that before the file.
#[derive(Debug, Args)]
struct Run {
    /// Configuration file, YAML or JSON; default: /etc/megamon/config.yaml, if it exists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Kubeconfig file; default: KUBECONFIG, the user's default file, or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Context in the kubeconfig; default: its current context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Name of the cluster, for the resource attribute k8s.cluster.name.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Where the history is kept: file:///absolute/path or memory:.
    #[arg(long, value_name = "URL")]
    history: Option<String>,
    /// First part of the name of every fleet metric.
    #[arg(long, value_name = "PREFIX")]
    metric_prefix: Option<String>,
    /// Where /metrics is served, such as 0.0.0.0:8080.
    #[arg(long, value_name = "IP:PORT")]
    metrics_address: Option<String>,
    /// Where /livez, /healthz and /readyz are served, such as 0.0.0.0:8081.
    #[arg(long, value_name = "IP:PORT")]
    probe_address: Option<String>,
    /// OTLP/gRPC receiver of the metrics, such as http://collector:4317; turns the push on.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Time between two pushes, such as 30s.
    #[arg(long, value_name = "DURATION")]
    otlp_interval: Option<String>,
    /// What is logged: a level, or parts such as info,megamon::watch=debug.
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
    /// Form of the log: auto, human or json.
    #[arg(long, value_name = "FORM")]
    log_format: Option<String>,
}

/// Form of the list of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CatalogFormat {
    /// Columns for a terminal.
    Table,
    /// A Markdown table.
    Markdown,
    /// A JSON array.
    Json,
}

/// Does what the arguments (the program's name first) say.
#[must_use]
pub fn execute(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok();
    let done = dispatch(
        arguments,
        &environment,
        &mut io::stdout(),
        &mut io::stderr(),
    );
    ExitCode::from(match done {
        Ok(code) => code,
        // Whoever reads the output has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => SUCCESS,
        Err(_) => FAILURE,
    })
}

/// The same with everything that it touches handed in. An error is one of writing the output.
fn dispatch(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let Arguments { command } = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let help = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
            if help {
                write!(out, "{}", error.render())?;
                return Ok(SUCCESS);
            }
            write!(err, "{}", error.render())?;
            return Ok(USAGE);
        }
    };
    let done = match command {
        Command::Run(run) => {
            let (file, flags) = run.flags();
            match config::load(file.as_deref(), &flags, environment) {
                Ok(config) => start(config),
                Err(problems) => return refuse(&problems, err),
            }
        }
        Command::Config(ConfigCommand::Check { file }) => {
            return match config::check(&file) {
                Ok(_) => writeln!(out, "{}: fine", file.display()).map(|()| SUCCESS),
                Err(problems) => refuse(&problems, out),
            };
        }
        Command::Config(ConfigCommand::Migrate { file }) => {
            return match config::migrate::file(&file) {
                Ok(migrated) => {
                    for note in migrated.notes {
                        writeln!(err, "{note}")?;
                    }
                    write!(out, "{}", migrated.yaml).map(|()| SUCCESS)
                }
                Err(problems) => refuse(&problems, err),
            };
        }
        Command::Config(ConfigCommand::Reference) => {
            return write!(out, "{}", config::reference::markdown()).map(|()| SUCCESS);
        }
        Command::Catalog { format } => return catalog(format, out).map(|()| SUCCESS),
    };
    match done {
        Ok(()) => Ok(SUCCESS),
        Err(error) => writeln!(err, "megamon: {error:#}").map(|()| FAILURE),
    }
}

fn refuse(problems: &Problems, to: &mut dyn Write) -> io::Result<u8> {
    writeln!(to, "{problems}").map(|()| CONFIGURATION)
}

impl Run {
    /// The file that was named, and what the flags set.
    fn flags(self) -> (Option<PathBuf>, Flags) {
        let Self {
            config,
            kubeconfig,
            context,
            cluster_name,
            history,
            metric_prefix,
            metrics_address,
            probe_address,
            otlp_endpoint,
            otlp_interval,
            log_level,
            log_format,
        } = self;
        let flags = Flags {
            metric_prefix,
            metrics_address,
            probe_address,
            otlp_endpoint,
            otlp_interval,
            kubeconfig,
            context,
            cluster_name,
            history,
            log_format,
            log_level,
        };
        (config, flags)
    }
}

/// Runs until it is told to stop.
fn start(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let done = runtime.block_on(run::run(config));
    // What blocks (a write to a stuck standard output) does not keep the process.
    runtime.shutdown_timeout(LAST_WAIT);
    done
}

/// Writes the list of metrics.
fn catalog(format: CatalogFormat, out: &mut dyn Write) -> io::Result<()> {
    let form = match format {
        CatalogFormat::Table => Form::Table,
        CatalogFormat::Markdown => Form::Markdown,
        CatalogFormat::Json => Form::Json,
    };
    writeln!(
        out,
        "{}",
        render(&Config::default().prefix, form).trim_end()
    )
}

#[cfg(test)]
mod tests;
