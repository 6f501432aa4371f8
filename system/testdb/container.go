package testdb

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that wait.ForSQL names
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"glovebox/system/platform/secret"
)

// defaultImage is used where ImageEnv is not set; it needs a registry.
const defaultImage = "docker.io/library/postgres:15"

// startContainer runs PostgreSQL by testcontainers-go on whatever engine
// DOCKER_HOST names. It publishes the port on loopback only. stop ends it; a
// process that dies leaves it to the reaper, or to a cleaning by session label.
func startContainer(ctx context.Context) (admin secret.Text, stop func(context.Context) error, err error) {
	image := os.Getenv(ImageEnv)
	if image == "" {
		image = defaultImage
	}
	password := RandomPassword()
	login := func(host, port string) string {
		u := url.URL{Scheme: "postgres", User: url.UserPassword(adminRole, password.Reveal()), Host: host + ":" + port, Path: "/postgres", RawQuery: "sslmode=disable"}
		return u.String()
	}
	const port = "5432/tcp"
	ready := wait.ForSQL(port, "pgx", func(host string, mapped network.Port) string { return login(host, mapped.Port()) }).
		WithStartupTimeout(2 * time.Minute).WithPollInterval(100 * time.Millisecond)
	running, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": password.Reveal()}),
		testcontainers.WithExposedPorts(port),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.PortBindings = network.PortMap{network.MustParsePort(port): {{HostIP: netip.MustParseAddr("127.0.0.1")}}}
		}),
		testcontainers.WithWaitStrategy(ready),
	)
	if err != nil {
		return secret.Text{}, nil, fmt.Errorf("start PostgreSQL from image %s in a container: %w", image, err)
	}
	host, err := running.Host(ctx)
	if err != nil {
		return secret.Text{}, nil, fmt.Errorf("ask for the container's host: %w", err)
	}
	mapped, err := running.MappedPort(ctx, port)
	if err != nil {
		return secret.Text{}, nil, fmt.Errorf("ask for the container's port: %w", err)
	}
	return secret.New(login(host, mapped.Port())), func(ctx context.Context) error { return running.Terminate(ctx) }, nil
}
