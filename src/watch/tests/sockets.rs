//! The client and a watch over real sockets: what a script in the process cannot play.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::script::{Counted, bookmark, event, jobset};
use crate::clock::WallClock;
use crate::config::Cluster;
use crate::model::{Observation, Update};
use crate::watch::{Feed, Options, Target, connect, follow};

/// The next connection, and the head of the one request that comes on it.
async fn request(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\
     transfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn a_watch_survives_a_server_that_dies_and_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c,
          clusters: [{{name: k, cluster: {{server: 'http://{address}'}}}}],
          users: [{{name: u, user: {{token: secret}}}}],
          contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let cluster = Cluster {
        kubeconfig: Some(kubeconfig),
        ..Cluster::default()
    };
    let client = connect(&cluster).await.unwrap();
    let (sender, mut receiver) = mpsc::channel(8);
    let shutdown = CancellationToken::new();
    let counted = Arc::new(Counted::default());
    let task = tokio::spawn(follow(
        Target::JobSets,
        Feed {
            client,
            sender,
            clock: Arc::new(WallClock),
            recorder: counted.clone(),
            shutdown: shutdown.clone(),
            options: Options::default(),
        },
    ));

    // A list, and a watch whose connection dies in the middle of a chunk.
    let (mut stream, head) = request(&listener).await;
    let lower = head.to_lowercase();
    let agent = format!("user-agent: megamon/{}\r\n", env!("CARGO_PKG_VERSION"));
    assert!(lower.contains(&agent), "{head}");
    assert!(lower.contains("authorization: bearer secret\r\n"), "{head}");
    let list = r#"{"metadata":{"resourceVersion":"10"},"items":[]}"#;
    let answer = format!("{CHUNKED}{}0\r\n\r\n", chunk(list));
    stream.write_all(answer.as_bytes()).await.unwrap();
    let (mut stream, head) = request(&listener).await;
    assert!(head.contains("resourceVersion=10"), "{head}");
    let added = event("ADDED", &jobset("a", 11, 1));
    let answer = format!("{CHUNKED}{}ff\r\n{{\"type\":", chunk(&added));
    stream.write_all(answer.as_bytes()).await.unwrap();
    drop(stream);

    // It goes on where it was.
    let (mut stream, head) = request(&listener).await;
    assert!(head.contains("resourceVersion=11"), "{head}");
    let answer = format!("{CHUNKED}{}", chunk(&bookmark(12)));
    stream.write_all(answer.as_bytes()).await.unwrap();

    let mut got = Vec::new();
    while got.len() < 3 {
        got.push(receiver.recv().await.unwrap());
    }
    assert!(
        matches!(&got[..], [
            Observation::JobSets(Update::Listed { .. }),
            Observation::JobSets(Update::Applied { .. }),
            Observation::JobSets(Update::Heard { resource_version, .. }),
        ] if &**resource_version == "12"),
        "{got:?}"
    );

    // The server is gone: the reconnect is refused, and that is told.
    drop(listener);
    drop(stream);
    let Some(Observation::JobSets(Update::Failed { error, .. })) = receiver.recv().await else {
        panic!("a failure is told");
    };
    assert!(
        error.to_lowercase().contains("connection refused"),
        "{error}"
    );

    // It is back: a whole list.
    let listener = TcpListener::bind(address).await.unwrap();
    let (mut stream, head) = request(&listener).await;
    assert!(!head.contains("watch=true"), "{head}");
    let answer = format!("{CHUNKED}{}0\r\n\r\n", chunk(list));
    stream.write_all(answer.as_bytes()).await.unwrap();
    loop {
        match receiver.recv().await.unwrap() {
            Observation::JobSets(Update::Failed { .. }) => {}
            Observation::JobSets(Update::Listed { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    shutdown.cancel();
    task.await.unwrap();
    let counted = counted.0.lock().unwrap().clone();
    assert_eq!(counted[0], "jobsets error");
}
