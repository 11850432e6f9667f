//! A server that speaks just enough HTTP to stand in for the GKE API and the metadata server.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How one request is answered.
#[derive(Clone)]
pub(super) enum Answer {
    /// With a status and a body.
    With(u16, String),
    /// Never.
    Never,
}

#[derive(Default)]
struct Script {
    /// Answers by the last part of a path. The last answer stays.
    answers: HashMap<&'static str, VecDeque<Answer>>,
    /// Requests, as path and head.
    asked: Vec<(String, String)>,
}

/// A server that answers by a script until it is dropped.
pub(super) struct StandIn {
    pub(super) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    task: tokio::task::JoinHandle<()>,
}

impl StandIn {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let shared = script.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self {
            address,
            script,
            task,
        }
    }

    /// Sets the answers to requests whose path ends so.
    pub(super) fn answer(&self, end: &'static str, answers: Vec<Answer>) {
        let mut script = self.script.lock().unwrap();
        script.answers.insert(end, answers.into());
    }

    /// Paths of the requests since the last call, without their queries.
    pub(super) fn paths(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.script.lock().unwrap().asked);
        asked.into_iter().map(|(path, _)| path).collect()
    }

    /// Heads of the requests since the last call.
    pub(super) fn heads(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.script.lock().unwrap().asked);
        asked.into_iter().map(|(_, head)| head).collect()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap();
    let path = target.split('?').next().unwrap().to_owned();
    let answer = {
        let mut script = script.lock().unwrap();
        script.asked.push((path.clone(), head.clone()));
        let found = script
            .answers
            .iter_mut()
            .find(|(end, _)| path.ends_with(**end));
        found.and_then(|(_, answers)| match answers.len() {
            0 | 1 => answers.front().cloned(),
            _ => answers.pop_front(),
        })
    };
    let (status, body) = match answer {
        Some(Answer::With(status, body)) => (status, body),
        Some(Answer::Never) => std::future::pending().await,
        None => (404, String::new()),
    };
    let answer = format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
}
