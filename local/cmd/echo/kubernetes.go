package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxRequest bounds the body of a request from an API server, in bytes: an object has at most 3 MiB, and a conversion
// carries a list of them.
const maxRequest = 16 << 20

const (
	// labelVerdict on an object makes its admission review fail if the value is "deny".
	labelVerdict = "echo"
	// annotationConverter on a converted object is the host that converted it.
	annotationConverter = "hortus.dev/converted-by"
)

type object map[string]any

// addKubernetes serves the requests that API servers send to a cluster's workloads: admission reviews, conversions
// between the versions of a kind, and an aggregated API with the resource "echoes", for any group and version. All
// responses name the host.
func addKubernetes(mux *http.ServeMux, hostname string) {
	mux.HandleFunc("POST /admit", answering(func(in review) (object, error) {
		response := object{"uid": in.Request.UID, "allowed": true}
		if in.Request.Object.Metadata.Labels[labelVerdict] == "deny" {
			response["allowed"] = false
			response["status"] = object{"message": "denied by " + hostname}
		}
		return object{"apiVersion": in.APIVersion, "kind": in.Kind, "response": response}, nil
	}))
	mux.HandleFunc("POST /convert", answering(func(in conversion) (object, error) {
		for _, o := range in.Request.Objects {
			if err := convert(o, in.Request.DesiredAPIVersion, hostname); err != nil {
				return nil, err
			}
		}
		return object{"apiVersion": in.APIVersion, "kind": in.Kind, "response": object{
			"uid": in.Request.UID, "result": object{"status": "Success"}, "convertedObjects": in.Request.Objects,
		}}, nil
	}))
	mux.HandleFunc("GET /apis/{group}/{version}", func(w http.ResponseWriter, r *http.Request) {
		write(w, object{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": groupVersion(r), "resources": []object{
			{"name": "echoes", "singularName": "echo", "namespaced": false, "kind": "Echo", "verbs": []string{"get"}},
		}})
	})
	mux.HandleFunc("GET /apis/{group}/{version}/echoes/{name}", func(w http.ResponseWriter, r *http.Request) {
		metadata := object{"name": r.PathValue("name")}
		write(w, object{"apiVersion": groupVersion(r), "kind": "Echo", "metadata": metadata, "from": hostname})
	})
}

// review is an AdmissionReview of admission.k8s.io.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID    string `json:"uid"`
		Object struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		} `json:"object"`
	} `json:"request"`
}

// conversion is a ConversionReview of apiextensions.k8s.io.
type conversion struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID               string   `json:"uid"`
		DesiredAPIVersion string   `json:"desiredAPIVersion"`
		Objects           []object `json:"objects"`
	} `json:"request"`
}

func convert(o object, apiVersion, hostname string) error {
	metadata, ok := o["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("an object of kind %v has no metadata", o["kind"])
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[annotationConverter] = hostname
	o["apiVersion"] = apiVersion
	return nil
}

func groupVersion(r *http.Request) string { return r.PathValue("group") + "/" + r.PathValue("version") }

// answering decodes a request and writes the response.
func answering[In any](answer func(In) (object, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in); err != nil {
			http.Error(w, fmt.Sprintf("decode request: %v", err), http.StatusBadRequest)
			return
		}
		out, err := answer(in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		write(w, out)
	}
}

func write(w http.ResponseWriter, o object) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // The client may have disconnected.
}
