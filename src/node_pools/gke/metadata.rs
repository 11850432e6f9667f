//! The metadata server of the machine that this runs on: project, location and name of the cluster.

use std::time::Duration;

use crate::watch::chain;

pub(super) const PROJECT: &str = "project/project-id";
pub(super) const LOCATION: &str = "instance/attributes/cluster-location";
pub(super) const CLUSTER: &str = "instance/attributes/cluster-name";

const TIMEOUT: Duration = Duration::from_secs(5);

/// Where it is: as Google's own clients find it.
pub(super) fn address() -> String {
    std::env::var("GCE_METADATA_HOST")
        .ok()
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "metadata.google.internal".to_owned())
}

/// One value. An error says where it was looked for.
pub(super) async fn get(address: &str, path: &str) -> Result<String, String> {
    let url = format!("http://{address}/computeMetadata/v1/{path}");
    let answer = async {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(TIMEOUT)
            .build()?;
        let request = client.get(&url).header("Metadata-Flavor", "Google");
        request.send().await?.error_for_status()?.text().await
    };
    match answer.await {
        Ok(value) if value.trim().is_empty() => Err(format!("{url} is empty")),
        Ok(value) => Ok(value.trim().to_owned()),
        Err(error) => Err(format!("GET {url}: {}", chain(&error.without_url()))),
    }
}
