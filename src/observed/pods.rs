//! Leader pods: which pool each runs on.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Change, Fact, Observed, Placement, Pod, Undecodable};

impl Fact for Pod {
    fn identity(&self) -> Arc<str> {
        self.uid.clone()
    }

    fn named(&self, undecodable: &Undecodable) -> bool {
        self.name == undecodable.name && self.namespace == undecodable.namespace
    }

    fn known(state: &Observed) -> Vec<Arc<str>> {
        state.pods.keys().cloned().collect()
    }

    fn held_as(state: &Observed, identity: &str, undecodable: &[Undecodable]) -> bool {
        state
            .pods
            .get(identity)
            .is_some_and(|pod| undecodable.iter().any(|u| pod.named(u)))
    }

    fn put(self, state: &mut Observed, out: &mut Vec<Change>) {
        let uid = self.uid.clone();
        if state.pods.get(&uid) == Some(&self) {
            return;
        }
        state.forget_pod_node(&uid);
        if let Some(node) = &self.node {
            state
                .pods_by_node
                .entry(node.clone())
                .or_default()
                .insert(uid.clone());
        }
        state.pods.insert(uid.clone(), self);
        out.push(Change::Pod(uid));
    }

    fn remove(state: &mut Observed, identity: &str, _seen: Timestamp, out: &mut Vec<Change>) {
        state.forget_pod_node(identity);
        if let Some(pod) = state.pods.remove(identity) {
            out.push(Change::Pod(pod.uid));
        }
    }
}

impl Observed {
    fn forget_pod_node(&mut self, uid: &str) {
        let Some(node) = self.pods.get(uid).and_then(|pod| pod.node.clone()) else {
            return;
        };
        if let Some(pods) = self.pods_by_node.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.pods_by_node.remove(&node);
            }
        }
    }

    pub(super) fn pods_of_node(&self, node: &str, out: &mut Vec<Change>) {
        let pods = self.pods_by_node.get(node).into_iter().flatten();
        out.extend(pods.map(|uid| Change::Pod(uid.clone())));
    }

    pub(super) fn pods_of_pool(&self, pool: &str, out: &mut Vec<Change>) {
        for node in self.pool_nodes(pool) {
            self.pods_of_node(node, out);
        }
    }

    /// The UIDs of all leader pods.
    pub fn pods(&self) -> impl Iterator<Item = Arc<str>> {
        self.pods.keys().cloned()
    }

    /// Where a leader pod runs: a pool of the nodepool family, as long as the pod is there and not
    /// terminal.
    #[must_use]
    pub fn scheduled(&self, uid: &str) -> Option<Placement> {
        let pod = self.pods.get(uid).filter(|pod| !pod.terminal)?;
        let node = self.nodes.get(pod.node.as_ref()?)?;
        let pool = node.fact.pool.as_ref()?;
        self.pools.get(pool)?.object.as_ref()?;
        Some(Placement {
            pool: pool.clone(),
            job: pod.job.clone()?,
            jobset: pod.jobset.clone()?,
        })
    }
}
