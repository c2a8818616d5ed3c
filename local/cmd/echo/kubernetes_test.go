package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAnswersOfAPIServersQuestions(t *testing.T) {
	for name, tc := range map[string]struct{ method, path, body, want string }{
		"an admission": {
			"POST", "/admit", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
				"request":{"uid":"1","object":{"metadata":{"name":"a"}}}}`,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"1","allowed":true}}`,
		},
		"a rejected admission": {
			"POST", "/admit", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
				"request":{"uid":"1","object":{"metadata":{"labels":{"echo":"deny"}}}}}`,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
				"response":{"uid":"1","allowed":false,"status":{"message":"denied by pod-1"}}}`,
		},
		"the admission of a deletion, which has no object": {
			"POST", "/admit",
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","object":null}}`,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"1","allowed":true}}`,
		},
		"a conversion": {
			"POST", "/convert", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",
				"request":{"uid":"2","desiredAPIVersion":"x.example.com/v2","objects":[
				{"apiVersion":"x.example.com/v1","kind":"X","metadata":{"name":"a","annotations":{"k":"v"}},"spec":{"n":1}},
				{"apiVersion":"x.example.com/v1","kind":"X","metadata":{"name":"b"}}]}}`,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",
				"response":{"uid":"2","result":{"status":"Success"},"convertedObjects":[
				{"apiVersion":"x.example.com/v2","kind":"X","spec":{"n":1},
					"metadata":{"name":"a","annotations":{"k":"v","hortus.dev/converted-by":"pod-1"}}},
				{"apiVersion":"x.example.com/v2","kind":"X",
					"metadata":{"name":"b","annotations":{"hortus.dev/converted-by":"pod-1"}}}]}}`,
		},
		"discovery of an aggregated API": {
			"GET", "/apis/echo.example.com/v1?timeout=32s", "",
			`{"apiVersion":"v1","kind":"APIResourceList","groupVersion":"echo.example.com/v1","resources":[
				{"name":"echoes","singularName":"echo","namespaced":false,"kind":"Echo","verbs":["get"]}]}`,
		},
		"an object of an aggregated API": {
			"GET", "/apis/echo.example.com/v1/echoes/hello", "",
			`{"apiVersion":"echo.example.com/v1","kind":"Echo","metadata":{"name":"hello"},"from":"pod-1"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			handler("pod-1").ServeHTTP(recorder, httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
			if recorder.Code != http.StatusOK || recorder.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("status %d, headers %v: %s", recorder.Code, recorder.Header(), recorder.Body)
			}
			var got, want any
			if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, recorder.Body)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the answer is\n%s\nwant\n%s", recorder.Body, tc.want)
			}
		})
	}
}

func TestQuestionsThatMakeNoSense(t *testing.T) {
	for path, body := range map[string]string{
		"/admit": "{", "/convert": `{"request":{"objects":[{"kind":"X"}]}}`,
	} {
		recorder := httptest.NewRecorder()
		handler("pod-1").ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		if recorder.Code != http.StatusBadRequest {
			t.Errorf("%s: %s has the response %d: %s", path, body, recorder.Code, recorder.Body)
		}
	}
}

func TestGetShowsItsToken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"get", "--token-file", file, server.URL}, &out)
	if err != nil || out.String() != "Bearer secret" {
		t.Errorf("get printed %q, %v", out.String(), err)
	}
}

func TestServeWithTLS(t *testing.T) {
	like := httptest.NewTLSServer(nil) // It has a certificate for 127.0.0.1.
	like.Close()
	pair := like.TLS.Certificates[0]
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	keyDER, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:         {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), address, certificate, key, io.Discard) }()
	for {
		conn, err := tls.Dial("tcp", address, like.Client().Transport.(*http.Transport).TLSClientConfig)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
