// Command echo is a small workload for examples and tests: a server that reports which pod responded, and a client.
//
//	echo serve --port 8080    responds with host name and request line, prints a line for every connection
//	echo get URL              prints the response; fails unless the status is 200
//
// At /admit, /convert and below /apis it responds to API servers, which connect over TLS only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = "usage: echo serve [--port N] [--certificate FILE --key FILE]\n" +
	"       echo get [--timeout DURATION] [--token-file FILE] URL"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "serve":
		port := flags.Int("port", 8080, "TCP port to listen on, on all addresses")
		certificate := flags.String("certificate", "",
			"file with the certificate for TLS, in PEM; without it there is no TLS")
		key := flags.String("key", "", "file with the private key of the certificate, in PEM")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if (*certificate == "") != (*key == "") {
			return errors.New(usage)
		}
		return serve(ctx, fmt.Sprintf(":%d", *port), *certificate, *key, out)
	case "get":
		timeout := flags.Duration("timeout", 10*time.Second, "limit for the whole request")
		tokenFile := flags.String("token-file", "", "file with a token to show to the server")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return errors.New(usage)
		}
		return get(ctx, flags.Arg(0), *timeout, *tokenFile, out)
	default:
		return errors.New(usage)
	}
}

// handler responds with the host name, which in a pod is the pod's name, so that callers can observe load balancing.
func handler(hostname string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s from %s\n", hostname, r.Method, r.URL.RequestURI(), r.RemoteAddr)
	})
	addKubernetes(mux, hostname)
	return mux
}

func serve(ctx context.Context, address, certificate, key string, out io.Writer) error {
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read host name: %w", err)
	}
	server := &http.Server{Addr: address, Handler: handler(hostname), ReadHeaderTimeout: 10 * time.Second,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateNew {
				fmt.Fprintf(out, "connection from %s\n", c.RemoteAddr())
			}
		}}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(grace) // Connections that are open after the grace period end with the process.
	}()
	fmt.Fprintf(out, "%s listens on %s\n", hostname, address)
	listen := server.ListenAndServe
	if certificate != "" {
		listen = func() error { return server.ListenAndServeTLS(certificate, key) }
	}
	if err := listen(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", address, err)
	}
	<-stopped
	return nil
}

func get(ctx context.Context, url string, timeout time.Duration, tokenFile string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err // The error names method and URL.
	}
	defer response.Body.Close()
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("read response of %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: status %s", url, response.Status)
	}
	return nil
}
