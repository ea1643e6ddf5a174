//! What each setting must be like, and what it is when nobody gives it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kontiki::NodeId;
use tracing_subscriber::EnvFilter;

use super::{
    AutoCompaction, CompactionMode, ConfigError, ELECTION_TIMEOUT_MS_MAX,
    HEARTBEATS_PER_ELECTION_MIN, HttpUrl, LeaseReads, LogOutput, Member, MemberList, Period,
    Settings, UrlList, WordList, member_id,
};

/// Where a kind of traffic is served, and what others are told.
pub(super) struct Urls {
    pub(super) listen: Vec<HttpUrl>,
    pub(super) advertise: Vec<HttpUrl>,
}

impl Urls {
    pub(super) fn resolve(
        [listen_name, advertise_name]: [&'static str; 2],
        listen: Option<UrlList>,
        advertise: Option<UrlList>,
        port: u16,
    ) -> Result<Self, ConfigError> {
        let listen = match listen {
            Some(UrlList(urls)) => urls,
            None => vec![HttpUrl::localhost(port)],
        };
        check_listen(listen_name, &listen)?;
        let advertise = match advertise {
            Some(UrlList(urls)) => urls,
            None => match listen.iter().find(|url| url.is_everywhere()) {
                None => listen.clone(),
                Some(url) => {
                    let (url, setting) = (url.clone(), advertise_name);
                    return Err(ConfigError::AdvertiseMissing { listen_name, url, setting });
                }
            },
        };
        check_urls(advertise_name, &advertise)?;
        Ok(Self { listen, advertise })
    }

    /// Refuses what nobody can dial. For clients etcd lets it pass: those that were told an
    /// endpoint can go on with that one.
    pub(super) fn check_dialled(&self, setting: &'static str) -> Result<(), ConfigError> {
        match self.advertise.iter().find(|url| url.is_everywhere()) {
            None => Ok(()),
            Some(url) => Err(ConfigError::AdvertiseEverywhere { setting, url: url.clone() }),
        }
    }
}

/// Where to listen; nowhere unless it is said.
pub(super) fn listen_urls(
    setting: &'static str,
    urls: Option<UrlList>,
) -> Result<Vec<HttpUrl>, ConfigError> {
    let Some(UrlList(urls)) = urls else { return Ok(Vec::new()) };
    check_listen(setting, &urls)?;
    Ok(urls)
}

fn check_listen(setting: &'static str, urls: &[HttpUrl]) -> Result<(), ConfigError> {
    check_urls(setting, urls)?;
    match urls.iter().find(|url| url.bind_address().is_none()) {
        None => Ok(()),
        Some(url) => Err(ConfigError::ListenOnName { setting, url: url.clone() }),
    }
}

pub(super) fn check_name(name: &str) -> Result<(), ConfigError> {
    if name.is_empty() {
        return Err(ConfigError::Empty { setting: "name" });
    }
    match name.chars().find(|&letter| ",=/\\".contains(letter) || letter.is_control()) {
        None => Ok(()),
        Some(letter) => Err(ConfigError::NameLetter { name: name.to_owned(), letter }),
    }
}

fn check_urls(setting: &'static str, urls: &[HttpUrl]) -> Result<(), ConfigError> {
    if urls.is_empty() {
        return Err(ConfigError::Empty { setting });
    }
    for (at, url) in urls.iter().enumerate() {
        if urls[..at].contains(url) {
            return Err(ConfigError::UrlTwice { setting, url: url.clone() });
        }
    }
    Ok(())
}

pub(super) fn check_ports_apart(client: &[HttpUrl], peer: &[HttpUrl]) -> Result<(), ConfigError> {
    for url in client {
        let clash = |other: &&HttpUrl| {
            let everywhere = url.is_everywhere() || other.is_everywhere();
            url.port() == other.port() && (everywhere || url.bind_address() == other.bind_address())
        };
        if let Some(other) = peer.iter().find(clash) {
            return Err(ConfigError::PortShared { client: url.clone(), peer: other.clone() });
        }
    }
    Ok(())
}

/// The members of `list`, each with its id, in order of their ids.
pub(super) fn members(list: MemberList, token: &str) -> Result<Vec<Member>, ConfigError> {
    let mut urls: BTreeMap<String, Vec<HttpUrl>> = BTreeMap::new();
    let mut names: BTreeMap<HttpUrl, String> = BTreeMap::new();
    for (name, url) in list.0 {
        check_name(&name)?;
        if let Some(other) = names.insert(url.clone(), name.clone()) {
            return Err(ConfigError::PeerUrlTwice { names: [other, name], url });
        }
        urls.entry(name).or_default().push(url);
    }
    let member = |(name, mut peer_urls): (String, Vec<HttpUrl>)| {
        peer_urls.sort_unstable();
        let id = member_id(token, &peer_urls);
        (id, Member { id, name, peer_urls })
    };
    let members: BTreeMap<NodeId, Member> = urls.into_iter().map(member).collect();
    Ok(members.into_values().collect())
}

/// Finds this node among the members, by its name, and compares what it says of itself.
pub(super) fn find_self(
    members: &[Member],
    name: &str,
    advertise: &[HttpUrl],
) -> Result<NodeId, ConfigError> {
    let Some(member) = members.iter().find(|member| member.name == name) else {
        let names = members.iter().map(|member| member.name.clone()).collect();
        return Err(ConfigError::NotAMember { name: name.to_owned(), names });
    };
    let mut said = advertise.to_vec();
    said.sort_unstable();
    if said != member.peer_urls {
        return Err(ConfigError::PeerUrlMismatch {
            name: name.to_owned(),
            cluster: UrlList(member.peer_urls.clone()),
            advertise: UrlList(advertise.to_vec()),
        });
    }
    Ok(member.id)
}

pub(super) fn lease_reads(
    settings: &Settings,
    election_timeout: Duration,
) -> Result<Option<LeaseReads>, ConfigError> {
    let clock_error_ppm = settings.lease_clock_error.unwrap_or(1000);
    let margin = settings.lease_margin.map_or(election_timeout / 20, Duration::from_millis);
    let drift = election_timeout.mul_f64(2.0 * f64::from(clock_error_ppm) / 1e6);
    if settings.lease_reads != Some(true) {
        return Ok(None);
    }
    if drift + margin >= election_timeout {
        let election_ms = election_timeout.as_millis() as u64;
        return Err(ConfigError::LeaseEmpty { election_ms });
    }
    Ok(Some(LeaseReads { clock_error_ppm, margin }))
}

/// As etcd: nothing asks for the default, and too little for the least.
pub(super) fn notify_interval(interval: Option<Period>) -> Duration {
    match interval.map(|interval| interval.0) {
        None | Some(Duration::ZERO) => Duration::from_secs(600),
        Some(interval) => interval.max(Duration::from_millis(100)),
    }
}

pub(super) fn stall_timeout(
    stall: Option<u64>,
    heartbeat: Duration,
) -> Result<Duration, ConfigError> {
    let heartbeat_ms = heartbeat.as_millis() as u64;
    // Slow heartbeats make it longer, where nobody has set it.
    let default = (2 * heartbeat_ms).max(3000);
    let stall_ms = size("disk-stall-timeout", stall, default, u64::MAX)?;
    let stall = Duration::from_millis(stall_ms);
    if stall < heartbeat * 2 {
        return Err(ConfigError::StallTooShort { stall_ms, heartbeat_ms });
    }
    Ok(stall)
}

pub(super) fn timing(
    heartbeat: Option<u64>,
    election: Option<u64>,
) -> Result<(Duration, Duration), ConfigError> {
    let heartbeat_ms = size("heartbeat-interval", heartbeat, 100, ELECTION_TIMEOUT_MS_MAX)?;
    let election_ms = size("election-timeout", election, 1000, ELECTION_TIMEOUT_MS_MAX)?;
    if election_ms < HEARTBEATS_PER_ELECTION_MIN * heartbeat_ms {
        return Err(ConfigError::ElectionTooShort { heartbeat_ms, election_ms });
    }
    Ok((Duration::from_millis(heartbeat_ms), Duration::from_millis(election_ms)))
}

pub(super) fn size(
    setting: &'static str,
    value: Option<u64>,
    default: u64,
    max: u64,
) -> Result<u64, ConfigError> {
    match value.unwrap_or(default) {
        0 => Err(ConfigError::Zero { setting, default }),
        value if value > max => Err(ConfigError::TooLarge { setting, value, max }),
        value => Ok(value),
    }
}

pub(super) fn count(
    setting: &'static str,
    value: Option<u64>,
    default: u64,
    max: u64,
) -> Result<usize, ConfigError> {
    let value = size(setting, value, default, max)?;
    usize::try_from(value).map_err(|_| ConfigError::TooLarge { setting, value, max })
}

/// As etcd reads it: a bare number counts hours or revisions, and a time that stands for revisions
/// counts its nanoseconds.
pub(super) fn auto_compaction(
    mode: CompactionMode,
    retention: Option<String>,
) -> Result<Option<AutoCompaction>, ConfigError> {
    let retention = retention.unwrap_or_default();
    let count = if retention.is_empty() { Some(0) } else { retention.parse::<u32>().ok() };
    let span = retention.parse::<Period>().ok().map(|Period(time)| time);
    let compaction = match (mode, count, span) {
        (CompactionMode::Periodic, Some(hours), _) => {
            AutoCompaction::Older(Duration::from_secs(u64::from(hours) * 3600))
        }
        (CompactionMode::Periodic, None, Some(time)) => AutoCompaction::Older(time),
        (CompactionMode::Revision, Some(count), _) => AutoCompaction::Revisions(count.into()),
        (CompactionMode::Revision, None, Some(time)) => {
            AutoCompaction::Revisions(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
        }
        (_, None, None) => return Err(ConfigError::Retention { retention }),
    };
    let is_off =
        matches!(compaction, AutoCompaction::Older(Duration::ZERO) | AutoCompaction::Revisions(0));
    Ok((!is_off).then_some(compaction))
}

/// Where log lines go.
pub(super) fn log_outputs(outputs: Option<WordList>) -> Result<Vec<LogOutput>, ConfigError> {
    let Some(WordList(words)) = outputs else { return Ok(vec![LogOutput::Stderr]) };
    let output = |word: &String| match word.as_str() {
        "" => Err(ConfigError::Empty { setting: "log-outputs" }),
        "default" | "stderr" | "systemd/journal" => Ok(LogOutput::Stderr),
        "stdout" => Ok(LogOutput::Stdout),
        file => Ok(LogOutput::File(file.into())),
    };
    let mut outputs: Vec<LogOutput> = words.iter().map(output).collect::<Result<_, _>>()?;
    outputs.dedup();
    if outputs.is_empty() {
        Err(ConfigError::Empty { setting: "log-outputs" })
    } else {
        Ok(outputs)
    }
}

pub(super) fn data_dir(data_dir: Option<PathBuf>, name: &str) -> Result<PathBuf, ConfigError> {
    let data_dir = data_dir.unwrap_or_else(|| PathBuf::from(format!("{name}.kontiki")));
    if data_dir.as_os_str().is_empty() {
        return Err(ConfigError::Empty { setting: "data-dir" });
    }
    Ok(data_dir)
}

pub(super) fn log_level(log_level: Option<String>) -> Result<String, ConfigError> {
    let log_level = match log_level.as_deref() {
        None => "info".to_owned(),
        // Levels of etcd's above any that we have.
        Some("dpanic" | "panic" | "fatal") => "error".to_owned(),
        Some(level) => level.to_owned(),
    };
    match EnvFilter::builder().parse(&log_level) {
        Ok(_) if !log_level.is_empty() => Ok(log_level),
        Ok(_) => Err(ConfigError::Empty { setting: "log-level" }),
        Err(error) => Err(ConfigError::LogLevel { log_level, reason: error.to_string() }),
    }
}
