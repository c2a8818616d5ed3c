package cloud

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// CreateInstance makes an instance, or returns the one with this name. It answers at once; the instance is pending.
func (c *Client) CreateInstance(ctx context.Context, in CreateInstance) (*Instance, error) {
	return put[Instance](ctx, c, "CreateInstance", http.MethodPost, "/v1/instances", in)
}

// GetInstance returns one instance by ID.
func (c *Client) GetInstance(ctx context.Context, id string) (*Instance, error) {
	return get[Instance](ctx, c, "GetInstance", "/v1/instances/"+url.PathEscape(id), nil)
}

// ListInstances returns the instances that match, ordered by ID.
func (c *Client) ListInstances(ctx context.Context, f Filter) ([]Instance, error) {
	return list[Instance](ctx, c, "ListInstances", "/v1/instances", f.query())
}

// UpdateInstance replaces the user data of an instance and restarts it with its disk, so that it applies them. Apart
// from the user data, in must equal the instance's own parameters. The instance must be running.
func (c *Client) UpdateInstance(ctx context.Context, id string, in CreateInstance) (*Instance, error) {
	return put[Instance](ctx, c, "UpdateInstance", http.MethodPut, "/v1/instances/"+url.PathEscape(id), in)
}

// DeleteInstance requests the removal of an instance. The removal is complete when GetInstance returns NoSuchResource.
func (c *Client) DeleteInstance(ctx context.Context, id string) error {
	return c.delete(ctx, "DeleteInstance", "/v1/instances/"+url.PathEscape(id))
}

// RebootInstance stops an instance; the cloud starts it again with its disk.
func (c *Client) RebootInstance(ctx context.Context, id string) error {
	return c.do(ctx, "RebootInstance", http.MethodPost, "/v1/instances/"+url.PathEscape(id)+"/reboot", nil, nil, nil)
}

// ConsoleLog returns the last tailBytes bytes of the console log of an instance; 0 means the whole log.
func (c *Client) ConsoleLog(ctx context.Context, id string, tailBytes int64) ([]byte, error) {
	q := url.Values{}
	if tailBytes > 0 {
		q.Set("tailBytes", strconv.FormatInt(tailBytes, 10))
	}
	resp, err := c.send(ctx, "ConsoleLog", http.MethodGet, "/v1/instances/"+url.PathEscape(id)+"/console", q, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// PrepareImage makes the cloud build an image of its registry that it builds on first use, and returns at once whether
// machines can pull it. It returns NoSuchResource for an image that the registry neither has nor builds.
func (c *Client) PrepareImage(ctx context.Context, in PrepareImage) (*Image, error) {
	return put[Image](ctx, c, "PrepareImage", http.MethodPost, "/v1/images", in)
}

// CreateNetwork makes a network, or returns the one with this name.
func (c *Client) CreateNetwork(ctx context.Context, in CreateNetwork) (*Network, error) {
	return put[Network](ctx, c, "CreateNetwork", http.MethodPost, "/v1/networks", in)
}

// GetNetwork returns one network by ID.
func (c *Client) GetNetwork(ctx context.Context, id string) (*Network, error) {
	return get[Network](ctx, c, "GetNetwork", "/v1/networks/"+url.PathEscape(id), nil)
}

// ListNetworks returns the networks that match, ordered by ID.
func (c *Client) ListNetworks(ctx context.Context, f Filter) ([]Network, error) {
	return list[Network](ctx, c, "ListNetworks", "/v1/networks", f.query())
}

// DeleteNetwork removes a network; it fails with DependencyViolation while instances are in it.
func (c *Client) DeleteNetwork(ctx context.Context, id string) error {
	return c.delete(ctx, "DeleteNetwork", "/v1/networks/"+url.PathEscape(id))
}

// CreateLoadBalancer makes a load balancer, or returns the existing one of this name with its current listeners. Its
// address is known at once.
func (c *Client) CreateLoadBalancer(ctx context.Context, in CreateLoadBalancer) (*LoadBalancer, error) {
	return put[LoadBalancer](ctx, c, "CreateLoadBalancer", http.MethodPost, "/v1/load-balancers", in)
}

// GetLoadBalancer returns one load balancer by ID.
func (c *Client) GetLoadBalancer(ctx context.Context, id string) (*LoadBalancer, error) {
	return get[LoadBalancer](ctx, c, "GetLoadBalancer", "/v1/load-balancers/"+url.PathEscape(id), nil)
}

// ListLoadBalancers returns the load balancers that match, ordered by ID.
func (c *Client) ListLoadBalancers(ctx context.Context, f Filter) ([]LoadBalancer, error) {
	return list[LoadBalancer](ctx, c, "ListLoadBalancers", "/v1/load-balancers", f.query())
}

// UpdateLoadBalancer replaces listeners, timeout and allowed prefixes. Connections to targets that stay are kept.
func (c *Client) UpdateLoadBalancer(ctx context.Context, id string, in UpdateLoadBalancer) (*LoadBalancer, error) {
	return put[LoadBalancer](ctx, c, "UpdateLoadBalancer", http.MethodPut, "/v1/load-balancers/"+url.PathEscape(id), in)
}

// DeleteLoadBalancer removes a load balancer and closes its connections.
func (c *Client) DeleteLoadBalancer(ctx context.Context, id string) error {
	return c.delete(ctx, "DeleteLoadBalancer", "/v1/load-balancers/"+url.PathEscape(id))
}

// SetDNSRecord makes or replaces a record set.
func (c *Client) SetDNSRecord(ctx context.Context, in DNSRecord) (*DNSRecord, error) {
	return put[DNSRecord](ctx, c, "SetDNSRecord", http.MethodPut, dnsPath(in.Name, in.Type), in)
}

// ListDNSRecords returns all record sets, ordered by name and type.
func (c *Client) ListDNSRecords(ctx context.Context, f Filter) ([]DNSRecord, error) {
	return list[DNSRecord](ctx, c, "ListDNSRecords", "/v1/dns-records", f.query())
}

// DeleteDNSRecord removes a record set.
func (c *Client) DeleteDNSRecord(ctx context.Context, name, recordType string) error {
	return c.delete(ctx, "DeleteDNSRecord", dnsPath(name, recordType))
}

func dnsPath(name, recordType string) string {
	return "/v1/dns-records/" + url.PathEscape(name) + "/" + url.PathEscape(recordType)
}

// CreateVolume makes a volume, or returns the one with this name.
func (c *Client) CreateVolume(ctx context.Context, in CreateVolume) (*Volume, error) {
	return put[Volume](ctx, c, "CreateVolume", http.MethodPost, "/v1/volumes", in)
}

// GetVolume returns one volume by ID.
func (c *Client) GetVolume(ctx context.Context, id string) (*Volume, error) {
	return get[Volume](ctx, c, "GetVolume", "/v1/volumes/"+url.PathEscape(id), nil)
}

// ListVolumes returns the volumes that match, ordered by ID.
func (c *Client) ListVolumes(ctx context.Context, f Filter) ([]Volume, error) {
	return list[Volume](ctx, c, "ListVolumes", "/v1/volumes", f.query())
}

// AttachVolume makes a volume appear in an instance of the same zone, at VolumesDir/<ID of the volume>. It returns at
// once; the volume has appeared when its state is attached. While it is attached to another instance the call fails
// with DependencyViolation.
func (c *Client) AttachVolume(ctx context.Context, id, instanceID string) (*Volume, error) {
	in := AttachVolume{InstanceID: instanceID}
	return put[Volume](ctx, c, "AttachVolume", http.MethodPost, "/v1/volumes/"+url.PathEscape(id)+"/attach", in)
}

// DetachVolume removes a volume from an instance, even if it is in use there. It returns at once; the volume is
// detached when its instanceID is empty. A volume that is not attached to this instance stays unchanged.
func (c *Client) DetachVolume(ctx context.Context, id, instanceID string) (*Volume, error) {
	in := AttachVolume{InstanceID: instanceID}
	return put[Volume](ctx, c, "DetachVolume", http.MethodPost, "/v1/volumes/"+url.PathEscape(id)+"/detach", in)
}

// DeleteVolume removes a volume and its data; it fails with DependencyViolation while attached.
func (c *Client) DeleteVolume(ctx context.Context, id string) error {
	return c.delete(ctx, "DeleteVolume", "/v1/volumes/"+url.PathEscape(id))
}

// CreateBucket makes a bucket; if the account already owns one of this name it is returned.
func (c *Client) CreateBucket(ctx context.Context, name string) (*Bucket, error) {
	return put[Bucket](ctx, c, "CreateBucket", http.MethodPut, "/v1/buckets/"+url.PathEscape(name), nil)
}

// GetBucket returns one bucket.
func (c *Client) GetBucket(ctx context.Context, name string) (*Bucket, error) {
	return get[Bucket](ctx, c, "GetBucket", "/v1/buckets/"+url.PathEscape(name), nil)
}

// CreateBucketCredentials returns the credentials that are limited to the objects in a bucket; they are made once. They
// outlive the bucket, so that their users get an error that the bucket does not exist, and become valid again if the
// account creates it again.
func (c *Client) CreateBucketCredentials(ctx context.Context, bucket string) (*Credentials, error) {
	return put[Credentials](ctx, c, "CreateBucketCredentials", http.MethodPost, credentialsPath(bucket), nil)
}

// DeleteBucketCredentials revokes the credentials of CreateBucketCredentials, even if the bucket no longer exists.
func (c *Client) DeleteBucketCredentials(ctx context.Context, bucket string) error {
	return c.delete(ctx, "DeleteBucketCredentials", credentialsPath(bucket))
}

func credentialsPath(bucket string) string {
	return "/v1/buckets/" + url.PathEscape(bucket) + "/credentials"
}

// ListBuckets returns the buckets of the account, ordered by name.
func (c *Client) ListBuckets(ctx context.Context) ([]Bucket, error) {
	return list[Bucket](ctx, c, "ListBuckets", "/v1/buckets", nil)
}

// DeleteBucket removes a bucket; unless force is set it fails with DependencyViolation while objects are in it.
func (c *Client) DeleteBucket(ctx context.Context, name string, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	return c.do(ctx, "DeleteBucket", http.MethodDelete, "/v1/buckets/"+url.PathEscape(name), q, nil, nil)
}

// PutObject stores content under key. It replaces an existing object only after all of the content has arrived.
func (c *Client) PutObject(ctx context.Context, bucket, key string, content io.Reader) (*Object, error) {
	resp, err := c.send(ctx, "PutObject", http.MethodPut, objectPath(bucket, key), nil, content)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return decode[Object]("PutObject", resp.Body)
}

// GetObject returns the content of an object; the caller closes it.
func (c *Client) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, "GetObject", http.MethodGet, objectPath(bucket, key), nil, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// ListObjects returns the objects whose keys begin with prefix, ordered by key.
func (c *Client) ListObjects(ctx context.Context, bucket, prefix string) ([]Object, error) {
	return c.ListObjectsAfter(ctx, bucket, prefix, "", 0)
}

// ListObjectsAfter returns at most limit of the objects whose keys begin with prefix and come after a key, ordered by
// key; a limit of 0 means all.
func (c *Client) ListObjectsAfter(ctx context.Context, bucket, prefix, after string, limit int) ([]Object, error) {
	q := url.Values{}
	if prefix != "" {
		q.Set("prefix", prefix)
	}
	if after != "" {
		q.Set("after", after)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return list[Object](ctx, c, "ListObjects", "/v1/buckets/"+url.PathEscape(bucket)+"/objects", q)
}

// DeleteObject removes an object.
func (c *Client) DeleteObject(ctx context.Context, bucket, key string) error {
	return c.delete(ctx, "DeleteObject", objectPath(bucket, key))
}

// MaxDeleteObjects is the maximum number of objects in one call of DeleteObjects.
const MaxDeleteObjects = 1000

// DeleteObjects removes at most MaxDeleteObjects objects at once, all of them or none; missing ones are fine.
func (c *Client) DeleteObjects(ctx context.Context, bucket string, keys []string) error {
	path := "/v1/buckets/" + url.PathEscape(bucket) + "/delete-objects"
	return c.do(ctx, "DeleteObjects", http.MethodPost, path, nil, DeleteObjects{Keys: keys}, nil)
}

func objectPath(bucket, key string) string {
	return "/v1/buckets/" + url.PathEscape(bucket) + "/objects/" + url.PathEscape(key)
}

// ListMachineTypes returns the sizes of instances the cloud offers.
func (c *Client) ListMachineTypes(ctx context.Context) ([]MachineType, error) {
	return list[MachineType](ctx, c, "ListMachineTypes", "/v1/machine-types", nil)
}

// ListMachineImages returns the images that instances can boot from.
func (c *Client) ListMachineImages(ctx context.Context) ([]MachineImage, error) {
	return list[MachineImage](ctx, c, "ListMachineImages", "/v1/machine-images", nil)
}

// ListQuotas returns the caller's quota, or the quotas of all accounts for administrators.
func (c *Client) ListQuotas(ctx context.Context) ([]Quota, error) {
	return list[Quota](ctx, c, "ListQuotas", "/v1/quotas", nil)
}

// SetQuota sets the limits of an account. Only for administrators.
func (c *Client) SetQuota(ctx context.Context, account string, limits Limits) (*Quota, error) {
	return put[Quota](ctx, c, "SetQuota", http.MethodPut, "/v1/quotas/"+url.PathEscape(account), limits)
}

// CreateCredentials makes new credentials for an account; only this response has the secret key. Only for
// administrators.
func (c *Client) CreateCredentials(ctx context.Context, account string, admin bool) (*Credentials, error) {
	in := Credentials{Account: account, Admin: admin}
	return put[Credentials](ctx, c, "CreateCredentials", http.MethodPost, "/v1/credentials", in)
}

// ListCredentials returns all credentials without secret keys. Only for administrators.
func (c *Client) ListCredentials(ctx context.Context) ([]Credentials, error) {
	return list[Credentials](ctx, c, "ListCredentials", "/v1/credentials", nil)
}

// DeleteCredentials revokes an access key. Only for administrators.
func (c *Client) DeleteCredentials(ctx context.Context, accessKey string) error {
	return c.delete(ctx, "DeleteCredentials", "/v1/credentials/"+url.PathEscape(accessKey))
}

// SetFault makes operations fail on demand, see Fault. Only for administrators.
func (c *Client) SetFault(ctx context.Context, f Fault) (*Fault, error) {
	return put[Fault](ctx, c, "SetFault", http.MethodPut, "/v1/faults", f)
}

// ListFaults returns the faults that can still strike. Only for administrators.
func (c *Client) ListFaults(ctx context.Context) ([]Fault, error) {
	return list[Fault](ctx, c, "ListFaults", "/v1/faults", nil)
}

// DeleteFault ends a fault. Only for administrators.
func (c *Client) DeleteFault(ctx context.Context, name string) error {
	return c.delete(ctx, "DeleteFault", "/v1/faults/"+url.PathEscape(name))
}
