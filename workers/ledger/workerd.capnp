# The ledger under workerd, as the tests run it; data is kept in the directory that the command line names:
#   workerd serve workerd.capnp --socket-addr http=127.0.0.1:8787 --directory-path disk=/var/lib/txmanager
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .ledger),
    (name = "disk", disk = (writable = true)),
  ],
  sockets = [(name = "http", http = (), service = "main")],
);

const ledger :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "dist/worker.js")],
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [
    (className = "Home", uniqueKey = "txmanager-home", enableSql = true),
    (className = "Lane", uniqueKey = "txmanager-lane", enableSql = true),
    (className = "Registry", uniqueKey = "txmanager-registry", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "HOME", durableObjectNamespace = "Home"),
    (name = "LANE", durableObjectNamespace = "Lane"),
    (name = "REGISTRY", durableObjectNamespace = "Registry"),
    (name = "AUDIENCE", fromEnvironment = "AUDIENCE"),
    (name = "INCARNATION", fromEnvironment = "INCARNATION"),
    (name = "PRODUCER_SECRETS", fromEnvironment = "PRODUCER_SECRETS"),
    (name = "OWNER_SECRETS", fromEnvironment = "OWNER_SECRETS"),
  ],
);
