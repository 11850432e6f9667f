//! The certificates of a control plane: a CA, the API server's, an administrator's, the key with
//! which service account tokens are signed, and those of webhooks.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_RSA_SHA256,
};

/// Files of a folder.
#[derive(Debug)]
pub(crate) struct Pki {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    ca: String,
}

impl Pki {
    /// Makes everything a control plane needs.
    pub(crate) fn create(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("the folder of the certificates");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "e2e CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let ca = params.self_signed(&key).expect("a CA").pem();
        let pki = Self {
            folder: folder.to_owned(),
            issuer: Issuer::new(params, key),
            ca,
        };
        pki.write("ca.crt", &pki.ca);
        let server = ExtendedKeyUsagePurpose::ServerAuth;
        pki.issue("server", "kube-apiserver", None, server);
        let client = ExtendedKeyUsagePurpose::ClientAuth;
        pki.issue("admin", "admin", Some("system:masters"), client);
        let signer = KeyPair::generate_for(&PKCS_RSA_SHA256).expect("an RSA key");
        pki.write("sa.key", &signer.serialize_pem());
        pki.write("sa.pub", &signer.public_key_pem());
        pki
    }

    /// Issues `NAME.crt` with its key `NAME.key`, valid for loopback.
    pub(crate) fn issue(
        &self,
        name: &str,
        common_name: &str,
        organization: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) {
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(String::from)).expect("names");
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        if let Some(organization) = organization {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization);
        }
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        self.write(&format!("{name}.crt"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    /// A file of the folder.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The CA's certificate in PEM.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path(file), text).expect("the folder is writable");
    }
}
