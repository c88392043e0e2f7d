# Resident lanes under workerd: the front listens, the signing script behind it has the keys and no address.
#   workerd serve resident.capnp --socket-addr http=127.0.0.1:8080 --directory-path disk=/var/lib/txmanager
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "front", worker = .front),
    (name = "signer", worker = .signer),
    (name = "disk", disk = (writable = true)),
    (name = "internet", network = (allow = ["public", "private"], tlsOptions = (trustBrowserCas = true))),
  ],
  sockets = [(name = "http", http = (), service = "front")],
);

const front :Workerd.Worker = (
  modules = [(name = "relay.js", esModule = embed "dist/relay.js")],
  compatibilityDate = "2026-10-01",
  bindings = [
    (name = "SIGNING", service = (name = "signer", entrypoint = "Ledger")),
    (name = "SETTINGS", fromEnvironment = "SETTINGS"),
    (name = "TOKENS", fromEnvironment = "TOKENS"),
    (name = "SEAL", fromEnvironment = "SEAL"),
  ],
);

const signer :Workerd.Worker = (
  modules = [(name = "signer.js", esModule = embed "dist/signer.js")],
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [
    (className = "Home", uniqueKey = "txmanager-home", enableSql = true),
    (className = "DurableObjectTxManager", uniqueKey = "txmanager-lane", enableSql = true),
    (className = "Registry", uniqueKey = "txmanager-registry", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "HOME", durableObjectNamespace = "Home"),
    (name = "LANE", durableObjectNamespace = "DurableObjectTxManager"),
    (name = "REGISTRY", durableObjectNamespace = "Registry"),
    (name = "INCARNATION", fromEnvironment = "INCARNATION"),
    (name = "SETTINGS", fromEnvironment = "SETTINGS"),
    (name = "KEYS", fromEnvironment = "KEYS"),
    (name = "SEAL", fromEnvironment = "SEAL"),
  ],
);
