//! This process as the kernel sees it, under the names that all programs have in common. Where
//! there is no `/proc`, there is nothing to show.

use prometheus::proto::MetricFamily;

#[cfg(not(target_os = "linux"))]
pub(super) fn families() -> Vec<MetricFamily> {
    Vec::new()
}

#[cfg(target_os = "linux")]
pub(super) fn families() -> Vec<MetricFamily> {
    use super::sampled::{counter, gauge};
    let mut families = Vec::new();
    if let Some(stat) = linux::stat() {
        let cpu = "Total user and system CPU time spent in seconds.";
        families.push(counter("process_cpu_seconds_total", cpu, stat.cpu_seconds));
        let memory = "Resident memory size in bytes.";
        families.push(gauge("process_resident_memory_bytes", memory, stat.resident_bytes));
        let memory = "Virtual memory size in bytes.";
        families.push(gauge("process_virtual_memory_bytes", memory, stat.virtual_bytes));
        let started = "Start time of the process since unix epoch in seconds.";
        families.extend(
            linux::boot_seconds().map(|boot| {
                gauge("process_start_time_seconds", started, boot + stat.start_seconds)
            }),
        );
    }
    if let Some(open) = linux::open_files() {
        let help = "Number of open file descriptors.";
        families.extend(["process_open_fds", "os_fd_used"].map(|name| gauge(name, help, open)));
    }
    if let Some(max) = linux::open_files_max() {
        let help = "Maximum number of open file descriptors.";
        families.extend(["process_max_fds", "os_fd_limit"].map(|name| gauge(name, help, max)));
    }
    families
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{read_dir, read_to_string};

    /// What is taken from `/proc/self/stat`.
    pub(super) struct Stat {
        pub(super) cpu_seconds: f64,
        /// After the machine was started.
        pub(super) start_seconds: f64,
        pub(super) resident_bytes: f64,
        pub(super) virtual_bytes: f64,
    }

    pub(super) fn stat() -> Option<Stat> {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as f64;
        parse(&read_to_string("/proc/self/stat").ok()?, ticks, page)
    }

    /// Fields are counted behind the name of the program, which may hold anything: `state` is
    /// number 3 in proc(5).
    pub(super) fn parse(text: &str, ticks: f64, page: f64) -> Option<Stat> {
        let (_, behind) = text.rsplit_once(')')?;
        let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Stat {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            start_seconds: field(22)? / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page,
        })
    }

    pub(super) fn boot_seconds() -> Option<f64> {
        let text = read_to_string("/proc/stat").ok()?;
        text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
    }

    pub(super) fn open_files() -> Option<f64> {
        Some(read_dir("/proc/self/fd").ok()?.count() as f64)
    }

    pub(super) fn open_files_max() -> Option<f64> {
        let text = read_to_string("/proc/self/limits").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_whatever_the_program_is_called() {
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 4 0 900 8192 3 1844";
        let stat = linux::parse(line, 100.0, 4096.0).expect("it reads");
        assert_eq!((stat.cpu_seconds, stat.start_seconds), (3.0, 9.0));
        assert_eq!((stat.virtual_bytes, stat.resident_bytes), (8192.0, 12288.0));
        assert!(linux::parse("7 (a) S 1", 100.0, 4096.0).is_none());
    }

    #[test]
    fn this_process_shows_all_of_it() {
        let families = families();
        assert_eq!(families.len(), 8);
        for family in families {
            let metric = &family.get_metric()[0];
            let value = metric.get_gauge().get_value() + metric.get_counter().get_value();
            let is_cpu = family.name() == "process_cpu_seconds_total";
            assert!(value > 0.0 || is_cpu, "{} is {value}", family.name());
        }
    }
}
