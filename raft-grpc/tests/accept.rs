//! A listener while the process may open no more files. The only test of this process.

use std::fs::File;
use std::time::Duration;

use raft_grpc::Connections;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[tokio::test]
async fn a_listener_without_free_descriptors_waits_and_then_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let _caller = TcpStream::connect(address).await.expect("the system takes it");

    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).expect("lowered");
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let mut connections = Connections::from(listener);
    let before = processor_time();
    let waited = timeout(Duration::from_millis(700), connections.next()).await;
    assert!(waited.is_err(), "nothing can be taken, and it is no error: {waited:?}");
    let used = processor_time() - before;
    assert!(used < Duration::from_millis(200), "{used:?} of work for nothing");

    drop(taken);
    let accepted = timeout(Duration::from_secs(10), connections.next()).await;
    accepted.expect("in time").expect("no end").expect("a connection");
}
