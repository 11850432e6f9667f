//! One child process in a process group of its own, with its log in a file.
//!
//! It ends with the value that holds it, also when the test panics, and then shows the end of its
//! log. If the test process itself is killed, the [`Reaper`] ends what it left.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// A running server.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts a program; what it says is appended to `LOGS/NAME.log`.
    pub(crate) fn start(name: &str, command: &mut Command, logs: &Path) -> Self {
        std::fs::create_dir_all(logs).expect("the folder of the logs");
        let log = logs.join(format!("{name}.log"));
        let out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the log is writable");
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a second handle of the log"))
            .stderr(out)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Reaper::guard(child.id());
        Self {
            name: name.to_owned(),
            log,
            child,
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it writes.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// An error when it has ended by itself.
    pub(crate) fn alive(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!(
                "{} ended with {status}:\n{}",
                self.name,
                last_lines(&self.log, 20)
            )),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    /// Sends a signal to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        if let Some(group) = Pid::from_raw(id) {
            // It may have ended already, which is what its owner finds when it waits.
            let _gone = kill_process_group(group, signal);
        }
    }

    /// Asks it to end and waits; what is left after the time is killed, which is an error.
    pub(crate) fn terminate(mut self, within: Duration) -> Result<ExitStatus, String> {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if begun.elapsed() > within => {
                    return Err(format!("{} did not end within {within:?}", self.name));
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(format!("{}: {error}", self.name)),
            }
        }
    }

    /// Ends it at once, with no chance to say goodbye.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _status = self.child.wait();
        Reaper::release(self.child.id());
        if std::thread::panicking() {
            let count = if self.name.starts_with("megamon") {
                60
            } else {
                6
            };
            let lines = last_lines(&self.log, count);
            eprintln!("---- the end of {}'s log\n{lines}", self.name);
        }
    }
}

/// The last lines of a file.
pub(crate) fn last_lines(path: &Path, count: usize) -> String {
    let Ok(file) = File::open(path) else {
        return format!("(no {})", path.display());
    };
    let mut last = VecDeque::new();
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        if last.len() == count {
            last.pop_front();
        }
        let text = String::from_utf8_lossy(&line);
        last.push_back(text.chars().take(400).collect::<String>());
    }
    Vec::from(last).join("\n")
}

/// A shell that waits for the end of its input, which comes with the end of this process however
/// it dies, and then kills the process groups and removes the folders that are still on its list.
pub(crate) struct Reaper;

impl Reaper {
    const SCRIPT: &str = r#"
        trap '' INT TERM HUP
        groups=" "; folders=()
        while read -r what which; do
          case $what in
            guard) groups="$groups$which " ;;
            release) groups="${groups/ $which / }" ;;
            remove) folders+=("$which") ;;
          esac
        done
        for group in $groups; do kill -KILL -- "-$group" 2>/dev/null; done
        for folder in "${folders[@]}"; do rm -rf -- "$folder"; done
    "#;

    fn say(line: &str) {
        static INPUT: OnceLock<Mutex<ChildStdin>> = OnceLock::new();
        #[expect(
            clippy::zombie_processes,
            reason = "it outlives this process, which it waits for"
        )]
        let input = INPUT.get_or_init(|| {
            let mut shell = Command::new("bash")
                .args(["-c", Self::SCRIPT])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .expect("bash starts");
            Mutex::new(shell.stdin.take().expect("its input is a pipe"))
        });
        let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(input, "{line}").expect("the reaper listens");
    }

    fn guard(id: u32) {
        Self::say(&format!("guard {id}"));
    }

    fn release(id: u32) {
        Self::say(&format!("release {id}"));
    }

    /// Removes a folder at the end of this process, if it is still there.
    pub(crate) fn remove_at_end(folder: &Path) {
        Self::say(&format!("remove {}", folder.display()));
    }
}
