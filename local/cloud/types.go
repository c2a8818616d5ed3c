package cloud

import "time"

// State is the lifecycle state of an object.
type State string

const (
	// StatePending means that the object was accepted and is being created.
	StatePending State = "pending"
	// StateRunning means that the instance runs.
	StateRunning State = "running"
	// StateStopped means that the instance has exited and will be started again.
	StateStopped State = "stopped"
	// StateLost means that the instance's hardware is gone (fault "lost"): it does not run and will not come back while
	// the fault lasts.
	StateLost State = "lost"
	// StateTerminating means that deletion was accepted; the object disappears when it is done.
	StateTerminating State = "terminating"
	// StateAvailable means that a network, load balancer or volume is ready for use.
	StateAvailable State = "available"
	// StateAttaching means that a volume is being attached to its running instance, StateAttached that it is attached,
	// and StateDetaching that it is being detached.
	StateAttaching State = "attaching"
	StateAttached  State = "attached"
	StateDetaching State = "detaching"
)

// Instance is a virtual machine.
type Instance struct {
	// id is chosen by the cloud, for example i-7c9d0a4b21.
	ID string `json:"id"`
	// name is the idempotency key of the create call, unique within the account. It becomes the host name.
	Name string `json:"name"`
	// account owns the instance.
	Account string `json:"account"`
	// machineType names an entry of the machine type list.
	MachineType string `json:"machineType"`
	// image is the full name of the machine image, for example hortus.dev/machine:1.0.0.
	Image string `json:"image"`
	// networkID is the network the instance is in.
	NetworkID string `json:"networkID"`
	Region    string `json:"region"`
	Zone      string `json:"zone"`
	// tags are free key/value pairs; lists can be filtered by them.
	Tags map[string]string `json:"tags,omitempty"`
	// volumes are attached from boot to deletion. The volumes of AttachVolume are not listed here.
	Volumes []VolumeAttachment `json:"volumes,omitempty"`
	// address is the private IPv4 address, assigned when the instance is created.
	Address string `json:"address"`
	// cidr is the CIDR of the network, gateway the default route inside the instance.
	CIDR    string `json:"cidr"`
	Gateway string `json:"gateway"`
	// providerID is local:///<region>/<id>.
	ProviderID string `json:"providerID"`
	State      State  `json:"state"`
	// message explains the state, empty when all is well.
	Message string `json:"message,omitempty"`
	// boots counts starts since creation; 1 after the first.
	Boots     int       `json:"boots"`
	CreatedAt time.Time `json:"createdAt"`
	// startedAt is the time of the last boot.
	StartedAt time.Time `json:"startedAt,omitzero"`
}

// VolumeAttachment mounts a volume into an instance.
type VolumeAttachment struct {
	VolumeID string `json:"volumeID"`
	// path is the absolute mount path inside the instance.
	Path string `json:"path"`
}

// CreateInstance are the parameters of Client.CreateInstance.
type CreateInstance struct {
	// name is the idempotency key, a DNS label of at most 63 characters. Required.
	Name string `json:"name"`
	// machineType, image and networkID as in Instance. Required.
	MachineType string `json:"machineType"`
	Image       string `json:"image"`
	NetworkID   string `json:"networkID"`
	// zone defaults to the first zone of the region.
	Zone string            `json:"zone,omitempty"`
	Tags map[string]string `json:"tags,omitempty"`
	// userData is given to the machine at boot, at most 1 MiB.
	UserData string `json:"userData,omitempty"`
	// address requests a fixed private address. Empty means the next free one.
	Address string             `json:"address,omitempty"`
	Volumes []VolumeAttachment `json:"volumes,omitempty"`
}

// Network is an isolated private network; CIDRs of different networks may overlap.
type Network struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Account string            `json:"account"`
	CIDR    string            `json:"cidr"`
	Gateway string            `json:"gateway"`
	Tags    map[string]string `json:"tags,omitempty"`
	// uplinkAddress is the source address of traffic that leaves the network.
	UplinkAddress string    `json:"uplinkAddress"`
	State         State     `json:"state"`
	Message       string    `json:"message,omitempty"`
	CreatedAt     time.Time `json:"createdAt"`
}

// CreateNetwork are the parameters of Client.CreateNetwork.
type CreateNetwork struct {
	// name is the idempotency key. Required.
	Name string `json:"name"`
	// cidr is an IPv4 prefix of 8 to 28 bits. Empty means that the cloud picks an unused one.
	CIDR string            `json:"cidr,omitempty"`
	Tags map[string]string `json:"tags,omitempty"`
}

// LoadBalancer spreads TCP connections to a public address over targets.
type LoadBalancer struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Account string            `json:"account"`
	Tags    map[string]string `json:"tags,omitempty"`
	// address is the public IPv4 address, assigned at creation and kept for life.
	Address   string     `json:"address"`
	Listeners []Listener `json:"listeners"`
	// idleTimeoutSeconds closes connections without traffic, in seconds; 0 means never.
	IdleTimeoutSeconds int `json:"idleTimeoutSeconds,omitempty"`
	// allowedCIDRs are the IPv4 or IPv6 prefixes that connections may come from. Empty means all.
	AllowedCIDRs []string  `json:"allowedCIDRs,omitempty"`
	State        State     `json:"state"`
	Message      string    `json:"message,omitempty"`
	CreatedAt    time.Time `json:"createdAt"`
}

// Listener forwards one port of a load balancer.
type Listener struct {
	// port is the port clients connect to, 1-65535, unique within the load balancer.
	Port int `json:"port"`
	// targets are tried in turn, beginning with another one for each connection.
	Targets []Target `json:"targets"`
}

// Target is the destination of a listener: a port of an instance, or any address the cloud's host reaches.
type Target struct {
	// instanceID is an instance of the same account. Exactly one of instanceID and host is set.
	InstanceID string `json:"instanceID,omitempty"`
	// host is an IP address or name reachable from the cloud's host. Only administrators may use it.
	Host string `json:"host,omitempty"`
	// port is the port of the instance or host, 1-65535.
	Port int `json:"port"`
}

// CreateLoadBalancer are the parameters of Client.CreateLoadBalancer.
type CreateLoadBalancer struct {
	// name is the idempotency key. Required.
	Name               string            `json:"name"`
	Tags               map[string]string `json:"tags,omitempty"`
	Listeners          []Listener        `json:"listeners,omitempty"`
	IdleTimeoutSeconds int               `json:"idleTimeoutSeconds,omitempty"`
	// allowedCIDRs are the prefixes that connections may come from, at most 256. Empty means all.
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
	// address requests a fixed public address. Empty means the next free one.
	Address string `json:"address,omitempty"`
}

// UpdateLoadBalancer holds the mutable fields of a load balancer.
type UpdateLoadBalancer struct {
	Listeners          []Listener `json:"listeners"`
	IdleTimeoutSeconds int        `json:"idleTimeoutSeconds,omitempty"`
	// allowedCIDRs as in LoadBalancer. Connections from elsewhere are closed.
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
}

// DNSRecord is a record set of the cloud's DNS server.
type DNSRecord struct {
	// name is a fully qualified name in lower case without the final dot; its first label may be "*".
	Name string `json:"name"`
	// type is A, CNAME or TXT.
	Type    string `json:"type"`
	Account string `json:"account"`
	// values are IPv4 addresses for A, one name for CNAME, any texts of at most 255 bytes for TXT.
	Values []string `json:"values"`
	// ttlSeconds is in seconds, 1 to 3600. Default 5: clients on the same host lose nothing by repeating the query.
	TTLSeconds int       `json:"ttlSeconds,omitempty"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

// Volume is a piece of disk that outlives instances.
type Volume struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Account string            `json:"account"`
	Zone    string            `json:"zone"`
	Tags    map[string]string `json:"tags,omitempty"`
	// sizeBytes is counted against the quota but not enforced on the file system.
	SizeBytes int64 `json:"sizeBytes"`
	State     State `json:"state"`
	// instanceID is the instance the volume is attached to, empty if none.
	InstanceID string    `json:"instanceID,omitempty"`
	CreatedAt  time.Time `json:"createdAt"`
}

// VolumesDir is the directory in an instance of the volumes that are attached after its creation, each in a directory
// named by its ID.
const VolumesDir = "/mnt/volumes"

// AttachVolume are the parameters of Client.AttachVolume and Client.DetachVolume.
type AttachVolume struct {
	// instanceID is an instance of the same account. Required.
	InstanceID string `json:"instanceID"`
}

// CreateVolume are the parameters of Client.CreateVolume.
type CreateVolume struct {
	// name is the idempotency key. Required.
	Name      string            `json:"name"`
	Zone      string            `json:"zone,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	SizeBytes int64             `json:"sizeBytes"`
}

// Bucket holds objects.
type Bucket struct {
	// name is unique in the whole cloud, as in public clouds.
	Name      string    `json:"name"`
	Account   string    `json:"account"`
	CreatedAt time.Time `json:"createdAt"`
}

// Object is the description of an object in a bucket.
type Object struct {
	// key is any text of 1 to 1024 bytes; slashes have no meaning but help to list by prefix.
	Key       string `json:"key"`
	SizeBytes int64  `json:"sizeBytes"`
	// sha256 is the hexadecimal checksum of the content.
	SHA256    string    `json:"sha256"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// DeleteObjects are the parameters of Client.DeleteObjects.
type DeleteObjects struct {
	Keys []string `json:"keys"`
}

// MachineType is a size of instances.
type MachineType struct {
	Name string `json:"name"`
	// cpu is the number of cores.
	CPU int `json:"cpu"`
	// memoryBytes is in bytes.
	MemoryBytes int64 `json:"memoryBytes"`
	// architecture is amd64 or arm64.
	Architecture string `json:"architecture"`
}

// MachineImage is an image that instances boot from.
type MachineImage struct {
	// name is the full name, for example hortus.dev/machine:1.0.0.
	Name string `json:"name"`
	// version is the tag.
	Version      string `json:"version"`
	Architecture string `json:"architecture,omitempty"`
	Digest       string `json:"digest,omitempty"`
}

// Limits bound what an account may own; 0 means no limit.
type Limits struct {
	Instances     int   `json:"instances"`
	CPU           int   `json:"cpu"`
	MemoryBytes   int64 `json:"memoryBytes"`
	LoadBalancers int   `json:"loadBalancers"`
	Networks      int   `json:"networks"`
	VolumeBytes   int64 `json:"volumeBytes"`
}

// Quota is the limits and the usage of an account.
type Quota struct {
	Account string `json:"account"`
	Limits  Limits `json:"limits"`
	Used    Limits `json:"used"`
}

// Credentials let a client act for an account.
type Credentials struct {
	AccessKey string `json:"accessKey"`
	// secretKey is only set in the response to the create call.
	SecretKey string `json:"secretKey,omitempty"`
	Account   string `json:"account"`
	// bucket is the only bucket the credentials give access to. Empty means everything of the account.
	Bucket string `json:"bucket,omitempty"`
	// admin may see and change the objects of all accounts, and manage credentials, quotas and faults.
	Admin     bool      `json:"admin,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// PrepareImage are the parameters of Client.PrepareImage.
type PrepareImage struct {
	// name is the full name of the image, for example hortus.dev/kubelet:v1.36.3.
	Name string `json:"name"`
	// cluster is the cluster whose machines are to pull the image, for faults. May be empty.
	Cluster string `json:"cluster,omitempty"`
}

// Image is a container image of the cloud's registry.
type Image struct {
	Name string `json:"name"`
	// ready is true when machines can pull the image.
	Ready bool `json:"ready"`
	// message says why the image is not ready, for people.
	Message string `json:"message,omitempty"`
}

// FaultType is the kind of failure that a Fault causes.
type FaultType string

const (
	// FaultUnauthorized refuses with UnauthorizedOperation.
	FaultUnauthorized FaultType = "unauthorized"
	// FaultQuota refuses with QuotaExceeded.
	FaultQuota FaultType = "quota"
	// FaultRateLimit refuses with RequestLimitExceeded.
	FaultRateLimit FaultType = "rate-limit"
	// FaultDepleted refuses with InsufficientInstanceCapacity.
	FaultDepleted FaultType = "depleted"
	// FaultDependency refuses with DependencyViolation.
	FaultDependency FaultType = "dependency"
	// FaultBusy refuses with RetryableError.
	FaultBusy FaultType = "busy"
	// FaultSlow delays the operation by delaySeconds.
	FaultSlow FaultType = "slow"
	// FaultLost carries out the operation and drops the response. For the operation "Instance" it simulates the loss of
	// the hardware of the target instance (or of all) while the fault lasts.
	FaultLost FaultType = "lost"
	// FaultBuilding reports images as being built. It is valid only with the operation PrepareImage.
	FaultBuilding FaultType = "building"
)

// OperationInstance is the pseudo operation with which FaultLost affects instances instead of calls.
const OperationInstance = "Instance"

// Fault makes operations fail on demand.
type Fault struct {
	// name identifies the fault; setting it again replaces it. Default <type>-<operation>.
	Name string    `json:"name"`
	Type FaultType `json:"type"`
	// operation is the name of a Client method, for example CreateInstance, or of an operation of the S3 API, for example
	// UploadPart, or "*" for all but those on faults. PutObject, GetObject, ListObjects and so on are both.
	Operation string `json:"operation"`
	// account limits the fault to one account. Empty means all.
	Account string `json:"account,omitempty"`
	// target limits the fault to an object ID or name, a zone, a machine type, an image, a cluster, a bucket or an object
	// key named in the request. Empty means all.
	Target string `json:"target,omitempty"`
	// count is the number of calls that fail; 0 means no limit.
	Count int `json:"count,omitempty"`
	// durationSeconds is the duration of the fault from now, in seconds; 0 means until deleted.
	DurationSeconds int `json:"durationSeconds,omitempty"`
	// delaySeconds is the delay of "slow", in seconds. Default 5.
	DelaySeconds float64 `json:"delaySeconds,omitempty"`
	// until is computed from durationSeconds by the cloud.
	Until time.Time `json:"until,omitzero"`
	// struck counts how often it has struck.
	Struck int `json:"struck"`
}

// Event reports that an object changed; get the object for its current state.
type Event struct {
	// revision grows with every change in the cloud, and survives restarts.
	Revision int64 `json:"revision"`
	// kind is instance, network, loadbalancer, dnsrecord, volume, bucket, quota or fault.
	Kind string `json:"kind"`
	// id is the object's ID, or its name where it has none.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// type is created, updated or deleted.
	Type  string `json:"type"`
	State State  `json:"state,omitempty"`
	// account owns the object. Only administrators see events of other accounts.
	Account string `json:"account,omitempty"`
}

// EventList is the answer of Client.Events.
type EventList struct {
	// revision is the value of since for the next call.
	Revision int64 `json:"revision"`
	// reset is true when events after since are no longer known: list the objects again.
	Reset  bool    `json:"reset,omitempty"`
	Events []Event `json:"events"`
}

// Filter selects objects in list calls; empty fields select everything.
type Filter struct {
	// name selects by exact name.
	Name string
	// networkID selects the instances of one network.
	NetworkID string
	// tags must all be present with these values.
	Tags map[string]string
}

// About describes the cloud.
type About struct {
	Region string   `json:"region"`
	Zones  []string `json:"zones"`
	// driver is container or simulated.
	Driver string `json:"driver"`
	// dns is the address of the DNS server, registry the base URL of the image registry.
	DNS      string `json:"dns"`
	Registry string `json:"registry"`
	// s3 is the base URL of the S3 API of the buckets, which takes path-style requests. It equals the base URL of this
	// API.
	S3 string `json:"s3"`
	// account and admin describe the caller.
	Account string `json:"account"`
	Admin   bool   `json:"admin"`
}

// Metadata is the content of /run/hortus-instance/metadata.json, which describes an instance to itself.
type Metadata struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	CIDR    string `json:"cidr"`
	Gateway string `json:"gateway"`
	// machineType, cpu (cores) and memoryBytes describe the size.
	MachineType string `json:"machineType"`
	CPU         int    `json:"cpu"`
	MemoryBytes int64  `json:"memoryBytes"`
	Region      string `json:"region"`
	Zone        string `json:"zone"`
	// dns is the address of the cloud's DNS server, registry the base URL of its image registry.
	DNS      string `json:"dns"`
	Registry string `json:"registry"`
	// registryPassword is the password with which the instance pulls images; its user name is its ID.
	RegistryPassword string `json:"registryPassword"`
	ImageVersion     string `json:"imageVersion"`
	ProviderID       string `json:"providerID"`
}
