package clouddaemon

import (
	"strconv"
	"time"

	api "hortus.dev/hortus/local/cloud"
)

// route is one operation of the API.
type route struct {
	// operation is the name of the client's method; faults refer to it.
	operation string
	pattern   string
	handle    func(*Cloud, *request) (any, error)
	// admin restricts the operation to administrators.
	admin bool
	// streams leaves the body to the operation.
	streams bool
	// inBucket allows the operation to credentials that are limited to the bucket {name}.
	inBucket bool
}

var routes = []route{
	{operation: "About", pattern: "GET /v1/about", handle: func(c *Cloud, r *request) (any, error) {
		return api.About{
			Region: c.cfg.Region, Zones: c.cfg.Zones, Driver: c.driver.Name(), DNS: c.dnsAddress, Registry: c.endpoint,
			S3: c.endpoint, Account: r.who.account, Admin: r.who.admin,
		}, nil
	}},
	{operation: "Events", pattern: "GET /v1/events", handle: func(c *Cloud, r *request) (any, error) {
		since, err := strconv.ParseInt(orDefault(r.URL.Query().Get("since"), "0"), 10, 64)
		if err != nil {
			return nil, invalid("since: invalid value: %q (a number)", r.URL.Query().Get("since"))
		}
		seconds, err := strconv.ParseFloat(orDefault(r.URL.Query().Get("waitSeconds"), "30"), 64)
		if err != nil || seconds < 0 {
			return nil, invalid("waitSeconds: invalid value: %q (a number of at least 0)", r.URL.Query().Get("waitSeconds"))
		}
		return c.waitForEvents(r.Context(), r.who, since, time.Duration(seconds*float64(time.Second))), nil
	}},

	{operation: "CreateInstance", pattern: "POST /v1/instances", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.CreateInstance](r)
		if err != nil {
			return nil, err
		}
		return answer(c.createInstance(r.Context(), r.who, in))
	}},
	{operation: "ListInstances", pattern: "GET /v1/instances", handle: func(c *Cloud, r *request) (any, error) {
		return c.listInstances(r.who, r.filter()), nil
	}},
	{operation: "GetInstance", pattern: "GET /v1/instances/{id}", handle: func(c *Cloud, r *request) (any, error) {
		return answer(c.getInstance(r.who, r.PathValue("id")))
	}},
	{operation: "UpdateInstance", pattern: "PUT /v1/instances/{id}", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.CreateInstance](r)
		if err != nil {
			return nil, err
		}
		return answer(c.updateInstance(r.who, r.PathValue("id"), in))
	}},
	{operation: "DeleteInstance", pattern: "DELETE /v1/instances/{id}", handle: func(c *Cloud, r *request) (any, error) {
		return nil, c.deleteInstance(r.who, r.PathValue("id"))
	}},
	{operation: "RebootInstance", pattern: "POST /v1/instances/{id}/reboot",
		handle: func(c *Cloud, r *request) (any, error) {
			return nil, c.rebootInstance(r.who, r.PathValue("id"))
		}},
	{operation: "ConsoleLog", pattern: "GET /v1/instances/{id}/console", handle: func(c *Cloud, r *request) (any, error) {
		tail, err := strconv.ParseInt(orDefault(r.URL.Query().Get("tailBytes"), "0"), 10, 64)
		if err != nil || tail < 0 {
			return nil, invalid("tailBytes: invalid value: %q (a number of at least 0)", r.URL.Query().Get("tailBytes"))
		}
		content, err := c.consoleLog(r.who, r.PathValue("id"), tail)
		if err != nil {
			return nil, err
		}
		return raw{content}, nil
	}},

	{operation: "CreateNetwork", pattern: "POST /v1/networks", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.CreateNetwork](r)
		if err != nil {
			return nil, err
		}
		return answer(c.createNetwork(r.who, in))
	}},
	{operation: "ListNetworks", pattern: "GET /v1/networks", handle: func(c *Cloud, r *request) (any, error) {
		return c.listNetworks(r.who, r.filter()), nil
	}},
	{operation: "GetNetwork", pattern: "GET /v1/networks/{id}", handle: func(c *Cloud, r *request) (any, error) {
		return answer(c.getNetwork(r.who, r.PathValue("id")))
	}},
	{operation: "DeleteNetwork", pattern: "DELETE /v1/networks/{id}", handle: func(c *Cloud, r *request) (any, error) {
		return nil, c.deleteNetwork(r.who, r.PathValue("id"))
	}},

	{operation: "CreateLoadBalancer", pattern: "POST /v1/load-balancers", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.CreateLoadBalancer](r)
		if err != nil {
			return nil, err
		}
		return answer(c.createLoadBalancer(r.who, in))
	}},
	{operation: "ListLoadBalancers", pattern: "GET /v1/load-balancers", handle: func(c *Cloud, r *request) (any, error) {
		return c.listLoadBalancers(r.who, r.filter()), nil
	}},
	{operation: "GetLoadBalancer", pattern: "GET /v1/load-balancers/{id}",
		handle: func(c *Cloud, r *request) (any, error) {
			return answer(c.getLoadBalancer(r.who, r.PathValue("id")))
		}},
	{operation: "UpdateLoadBalancer", pattern: "PUT /v1/load-balancers/{id}",
		handle: func(c *Cloud, r *request) (any, error) {
			in, err := decode[api.UpdateLoadBalancer](r)
			if err != nil {
				return nil, err
			}
			return answer(c.updateLoadBalancer(r.who, r.PathValue("id"), in))
		}},
	{operation: "DeleteLoadBalancer", pattern: "DELETE /v1/load-balancers/{id}",
		handle: func(c *Cloud, r *request) (any, error) {
			return nil, c.deleteLoadBalancer(r.who, r.PathValue("id"))
		}},

	{operation: "ListDNSRecords", pattern: "GET /v1/dns-records", handle: func(c *Cloud, r *request) (any, error) {
		return c.listDNSRecords(r.who, r.filter()), nil
	}},
	{operation: "SetDNSRecord", pattern: "PUT /v1/dns-records/{name}/{type}",
		handle: func(c *Cloud, r *request) (any, error) {
			in, err := decode[api.DNSRecord](r)
			if err != nil {
				return nil, err
			}
			in.Name, in.Type = r.PathValue("name"), r.PathValue("type")
			return answer(c.setDNSRecord(r.who, in))
		}},
	{operation: "DeleteDNSRecord", pattern: "DELETE /v1/dns-records/{name}/{type}",
		handle: func(c *Cloud, r *request) (any, error) {
			return nil, c.deleteDNSRecord(r.who, r.PathValue("name"), r.PathValue("type"))
		}},

	{operation: "CreateVolume", pattern: "POST /v1/volumes", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.CreateVolume](r)
		if err != nil {
			return nil, err
		}
		return answer(c.createVolume(r.who, in))
	}},
	{operation: "ListVolumes", pattern: "GET /v1/volumes", handle: func(c *Cloud, r *request) (any, error) {
		return c.listVolumes(r.who, r.filter()), nil
	}},
	{operation: "GetVolume", pattern: "GET /v1/volumes/{id}", handle: func(c *Cloud, r *request) (any, error) {
		return answer(c.getVolume(r.who, r.PathValue("id")))
	}},
	{operation: "AttachVolume", pattern: "POST /v1/volumes/{id}/attach", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.AttachVolume](r)
		if err != nil {
			return nil, err
		}
		return answer(c.attachVolume(r.who, r.PathValue("id"), in.InstanceID))
	}},
	{operation: "DetachVolume", pattern: "POST /v1/volumes/{id}/detach", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.AttachVolume](r)
		if err != nil {
			return nil, err
		}
		return answer(c.detachVolume(r.who, r.PathValue("id"), in.InstanceID))
	}},
	{operation: "DeleteVolume", pattern: "DELETE /v1/volumes/{id}", handle: func(c *Cloud, r *request) (any, error) {
		return nil, c.deleteVolume(r.who, r.PathValue("id"))
	}},

	{operation: "ListBuckets", pattern: "GET /v1/buckets", handle: func(c *Cloud, r *request) (any, error) {
		return c.listBuckets(r.who), nil
	}},
	{operation: "GetBucket", pattern: "GET /v1/buckets/{name}", inBucket: true,
		handle: func(c *Cloud, r *request) (any, error) {
			return answer(c.getBucket(r.who, r.PathValue("name")))
		}},
	{operation: "CreateBucket", pattern: "PUT /v1/buckets/{name}", handle: func(c *Cloud, r *request) (any, error) {
		return answer(c.createBucket(r.who, r.PathValue("name")))
	}},
	{operation: "DeleteBucket", pattern: "DELETE /v1/buckets/{name}", handle: func(c *Cloud, r *request) (any, error) {
		return nil, c.deleteBucket(r.who, r.PathValue("name"), r.URL.Query().Get("force") == "true")
	}},
	{operation: "CreateBucketCredentials", pattern: "POST /v1/buckets/{name}/credentials",
		handle: func(c *Cloud, r *request) (any, error) {
			return answer(c.createBucketCredentials(r.who, r.PathValue("name")))
		}},
	{operation: "DeleteBucketCredentials", pattern: "DELETE /v1/buckets/{name}/credentials",
		handle: func(c *Cloud, r *request) (any, error) {
			return nil, c.deleteBucketCredentials(r.who, r.PathValue("name"))
		}},
	{operation: "ListObjects", pattern: "GET /v1/buckets/{name}/objects", inBucket: true,
		handle: func(c *Cloud, r *request) (any, error) {
			q := r.URL.Query()
			limit, err := strconv.Atoi(orDefault(q.Get("limit"), "0"))
			if err != nil || limit < 0 {
				return nil, invalid("limit: invalid value: %q (a number of at least 0)", q.Get("limit"))
			}
			return c.listObjects(r.who, r.PathValue("name"), q.Get("prefix"), q.Get("after"), limit)
		}},
	{operation: "PutObject", pattern: "PUT /v1/buckets/{name}/objects/{key...}", streams: true, inBucket: true,
		handle: func(c *Cloud, r *request) (any, error) {
			return answer(c.putObject(r.who, r.PathValue("name"), r.PathValue("key"), r.Body))
		}},
	{operation: "GetObject", pattern: "GET /v1/buckets/{name}/objects/{key...}", inBucket: true,
		handle: func(c *Cloud, r *request) (any, error) {
			_, content, err := c.openObject(r.who, r.PathValue("name"), r.PathValue("key"))
			if err != nil {
				return nil, err
			}
			return raw{content}, nil
		}},
	{operation: "DeleteObject", pattern: "DELETE /v1/buckets/{name}/objects/{key...}", inBucket: true,
		handle: func(c *Cloud, r *request) (any, error) {
			return nil, c.deleteObject(r.who, r.PathValue("name"), r.PathValue("key"))
		}},
	{operation: "DeleteObjects", pattern: "POST /v1/buckets/{name}/delete-objects", inBucket: true,
		handle: func(c *Cloud, r *request) (any, error) {
			in, err := decode[api.DeleteObjects](r)
			if err != nil {
				return nil, err
			}
			if len(in.Keys) > api.MaxDeleteObjects {
				return nil, invalid("keys: too many: %d (at most %d)", len(in.Keys), api.MaxDeleteObjects)
			}
			return nil, c.deleteObjects(r.who, r.PathValue("name"), in.Keys)
		}},

	{operation: "ListMachineTypes", pattern: "GET /v1/machine-types", handle: func(c *Cloud, r *request) (any, error) {
		return api.List[api.MachineType]{Items: c.cfg.MachineTypes}, nil
	}},
	{operation: "ListMachineImages", pattern: "GET /v1/machine-images", handle: func(c *Cloud, r *request) (any, error) {
		images, err := c.driver.Images(r.Context())
		return api.List[api.MachineImage]{Items: orEmpty(images)}, err
	}},
	{operation: operationPrepareImage, pattern: "POST /v1/images", handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.PrepareImage](r)
		if err != nil {
			return nil, err
		}
		return answer(c.prepareImage(in.Name, r.fault))
	}},

	{operation: "ListQuotas", pattern: "GET /v1/quotas", handle: func(c *Cloud, r *request) (any, error) {
		return c.listQuotas(r.who), nil
	}},
	{operation: "SetQuota", pattern: "PUT /v1/quotas/{name}", admin: true,
		handle: func(c *Cloud, r *request) (any, error) {
			in, err := decode[api.Limits](r)
			if err != nil {
				return nil, err
			}
			return answer(c.setQuota(r.PathValue("name"), in))
		}},
	{operation: "ListCredentials", pattern: "GET /v1/credentials", admin: true,
		handle: func(c *Cloud, r *request) (any, error) {
			return c.listCredentials(), nil
		}},
	{operation: "CreateCredentials", pattern: "POST /v1/credentials", admin: true,
		handle: func(c *Cloud, r *request) (any, error) {
			in, err := decode[api.Credentials](r)
			if err != nil {
				return nil, err
			}
			return answer(c.newCredentials(in.Account, in.Admin))
		}},
	{operation: "DeleteCredentials", pattern: "DELETE /v1/credentials/{id}", admin: true,
		handle: func(c *Cloud, r *request) (any, error) {
			return nil, c.deleteCredentials(r.PathValue("id"))
		}},

	{operation: "ListFaults", pattern: "GET /v1/faults", admin: true, handle: func(c *Cloud, r *request) (any, error) {
		return api.List[api.Fault]{Items: orEmpty(c.listFaults())}, nil
	}},
	{operation: "SetFault", pattern: "PUT /v1/faults", admin: true, handle: func(c *Cloud, r *request) (any, error) {
		in, err := decode[api.Fault](r)
		if err != nil {
			return nil, err
		}
		return answer(c.setFault(in))
	}},
	{operation: "DeleteFault", pattern: "DELETE /v1/faults/{name}", admin: true,
		handle: func(c *Cloud, r *request) (any, error) {
			return nil, c.deleteFault(r.PathValue("name"))
		}},
}

// answer keeps a nil pointer from becoming a non-nil answer.
func answer[T any](out *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
