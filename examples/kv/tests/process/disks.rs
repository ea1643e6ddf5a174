//! Disks that are full, and disks that stand still.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::kit::namespace::{Disk, apart};
use crate::kit::{Cluster, ELECTION_MS, Load, lost_or_doubled, until};

const WRITERS: usize = 3;
/// Room for the log's segments and the store.
const SIZE: &str = "400m";
const STALL: Duration = Duration::from_millis(1000);

/// A cluster of which one node has its data on the disk that is made.
async fn on_disk(
    make: impl Fn(&Path) -> Result<Disk, String>,
    flags: &[&str],
) -> Result<(Cluster, Disk), String> {
    let mut cluster = Cluster::plan("disks");
    let mount = cluster.dir().join("disk");
    let disk = make(&mount)?;
    // Its directory is the disk itself, so that what it says is written elsewhere.
    cluster.nodes[0].serve.data_dir.clone_from(&mount);
    for node in &mut cluster.nodes {
        node.serve.more = flags.iter().map(|&flag| flag.to_owned()).collect();
    }
    cluster.start_all();
    cluster.leader().await;
    // The disk goes first: nobody can be killed who waits for a frozen one.
    Ok((cluster, disk))
}

/// Leads, whoever led before.
async fn lead(cluster: &Cluster, at: usize) {
    let id = cluster.id(at).await;
    until("it leads", async || {
        let _ = cluster.client(at).transfer(Some(id)).await;
        (cluster.leader().await == at).then_some(())
    })
    .await;
}

/// ```text
/// n1      leads ─ its disk fills up ─ ends with the facts ── space ─ started: catches up
/// others          elect, go on
/// ```
/// And once more where it follows.
// scenario B67
#[test]
fn a_node_whose_disk_is_full_gives_way_and_comes_back() {
    apart("disks::a_node_whose_disk_is_full_gives_way_and_comes_back", async {
        let make = |at: &Path| Disk::small(at, SIZE);
        let (mut cluster, _disk) = on_disk(make, &["--snapshot-count=100000000"]).await?;
        let mount = cluster.dir().join("disk");
        for leads in [true, false] {
            lead(&cluster, usize::from(!leads)).await;
            let load = Load::start(&format!("leads {leads}"), &cluster.endpoints(), WRITERS);
            load.more(20).await;
            let began = Instant::now();
            let ballast = fill(&mount);
            let fat = fatten(&cluster);
            let node = &mut cluster.nodes[0];
            assert_eq!(node.ended(), Some(1), "{}", node.last_lines(5));
            let said = node.last_lines(1);
            assert!(said.starts_with("error: ") && said.contains("No space left"), "{said}");
            fat.abort();
            load.more(50).await;
            println!("{said}\nthe longest time without a write: {:?}", load.longest_gap(began));

            std::fs::remove_file(ballast).expect("removed");
            cluster.nodes[0].start();
            cluster.leader().await;
            let acknowledged = load.stop().await;
            let held = cluster.settled().await;
            assert_eq!(lost_or_doubled(&acknowledged, &held), Vec::<String>::new());
        }
        Ok(())
    });
}

/// Takes all the space that there is.
fn fill(mount: &Path) -> std::path::PathBuf {
    use std::io::Write;
    let ballast = mount.join("ballast");
    let mut file = std::fs::File::create(&ballast).expect("made");
    let block = vec![1; 64 << 10];
    while file.write_all(&block).is_ok() {}
    ballast
}

/// Writes large values until it is aborted, so that the room that was taken beforehand ends.
fn fatten(cluster: &Cluster) -> tokio::task::JoinHandle<()> {
    let mut client = cluster.client(1).within(Duration::from_secs(2));
    tokio::spawn(async move {
        for number in 0_u64.. {
            let value = vec![number as u8; 512 << 10];
            let _ = client.put(&format!("fat/{}", number % 4), value).await;
        }
    })
}

/// ```text
/// n1      leads ─ its disk stands still ─ yields ───────────── it moves again: n1 catches up
/// others                                  elect, go on
/// ```
/// And where it follows, the others hardly notice.
// scenario B15
#[test]
fn a_node_whose_disk_stands_still_yields_and_comes_back() {
    apart("disks::a_node_whose_disk_stands_still_yields_and_comes_back", async {
        let stall = format!("--disk-stall-timeout={}", STALL.as_millis());
        let make = |at: &Path| Disk::freezable(at, SIZE);
        let (cluster, mut disk) = on_disk(make, &[&stall]).await?;
        for leads in [true, false] {
            lead(&cluster, usize::from(!leads)).await;
            let load = Load::start(&format!("leads {leads}"), &cluster.endpoints(), WRITERS);
            load.more(20).await;
            let began = Instant::now();
            disk.freeze().expect("it could be frozen before");
            // Two more writes: the one that stalls, and one without it.
            load.more(50).await;
            let leader = cluster.leader_among(&[1, 2]).await;
            let gap = load.longest_gap(began);
            assert_ne!(leader, 0);
            println!("led: {leads}; the longest time without a write: {gap:?}");
            let bound = STALL + Duration::from_millis(10 * ELECTION_MS);
            assert!(gap < bound, "{gap:?}: it did not yield within {bound:?}");
            tokio::time::sleep(2 * STALL).await;
            let stalled = cluster.client(0).status().await.expect("it answers for itself");
            println!("meanwhile it says {:?}", stalled.errors);

            disk.thaw();
            cluster.leader().await;
            let acknowledged = load.stop().await;
            let held = cluster.settled().await;
            assert_eq!(lost_or_doubled(&acknowledged, &held), Vec::<String>::new());
        }
        Ok(())
    });
}
