package podman

import (
	"fmt"
	"math"
	"strconv"

	"github.com/containers/podman/v5/pkg/specgen"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
	nettypes "go.podman.io/common/libnetwork/types"
	"go.podman.io/storage/pkg/idtools"
	"go.podman.io/storage/types"

	"glovebox/system/worker/internal/container"
)

// translate writes spec in the engine's words. Settings without a field in the
// Spec are fixed here because the engine would otherwise add something of its
// own: environment, tmpfs mounts, files under /etc, volumes, health checks.
func translate(spec container.Spec) (*specgen.SpecGenerator, error) {
	yes, no := true, false
	g := specgen.NewSpecGenerator(spec.Rootfs, true)
	g.Name = spec.Name
	g.Labels = map[string]string{labelKey: spec.Label}

	g.Entrypoint, g.Command = spec.Command, nil
	g.Env, g.UnsetEnvAll, g.EnvHost, g.HTTPProxy = map[string]string{}, &yes, &no, &no
	g.Terminal, g.Stdin = &no, &no
	g.WorkDir, g.Umask, g.Hostname = "/", "0077", spec.Hostname
	g.RestartPolicy, g.Systemd, g.SdNotifyMode = "no", "false", "ignore"
	g.LogConfiguration = &specgen.LogConfig{Driver: spec.LogDriver}
	seconds := uint(math.Ceil(spec.Backstop.Seconds()))
	g.Timeout = seconds

	g.User = strconv.FormatUint(uint64(spec.UID), 10) + ":" + strconv.FormatUint(uint64(spec.GID), 10)
	g.CapDrop, g.NoNewPrivileges, g.Privileged = spec.DropCapabilities, &spec.NoNewPrivileges, &no
	g.SeccompProfilePath = spec.SeccompProfile
	ids := []idtools.IDMap{{ContainerID: int(spec.IDMap.Container), HostID: int(spec.IDMap.Host), Size: int(spec.IDMap.Size)}}
	g.IDMappings = &types.IDMappingOptions{UIDMap: ids, GIDMap: ids}

	if err := namespaces(g, spec); err != nil {
		return nil, err
	}

	g.ReadOnlyFilesystem, g.ReadWriteTmpfs = &spec.ReadOnlyRootfs, &no
	g.ImageVolumeMode = "ignore"
	g.UseImageHosts, g.UseImageResolvConf, g.UseImageHostname, g.Passwd = &yes, &yes, &yes, &no
	g.Mask = spec.Masked
	for _, m := range spec.Mounts {
		g.Mounts = append(g.Mounts, rspec.Mount{Type: m.Type, Source: m.Source, Destination: m.Destination, Options: m.Options})
	}

	g.CgroupParent = spec.CgroupParent
	memory, pids := spec.MemoryBytes, spec.Pids
	g.ResourceLimits = &rspec.LinuxResources{
		Memory: &rspec.LinuxMemory{Limit: &memory, Swap: &memory}, // swap == limit: none
		Pids:   &rspec.LinuxPids{Limit: pids},
	}
	for _, r := range spec.Rlimits {
		g.Rlimits = append(g.Rlimits, rspec.POSIXRlimit{Type: r.Name, Soft: r.Value, Hard: r.Value})
	}
	adj := spec.OOMScoreAdj
	g.OOMScoreAdj = &adj
	return g, nil
}

func namespaces(g *specgen.SpecGenerator, spec container.Spec) error {
	private := specgen.Namespace{NSMode: specgen.Private}
	for _, name := range spec.Private {
		switch name {
		case "pid":
			g.PidNS = private
		case "uts":
			g.UtsNS = private
		case "cgroup":
			g.CgroupNS = private
		case "user":
			g.UserNS = private
		default:
			return fmt.Errorf("translate spec: no namespace is called %q", name)
		}
	}
	if spec.Network != "none" {
		return fmt.Errorf("translate spec: network %q is not supported, only none", spec.Network)
	}
	g.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	g.Networks = map[string]nettypes.PerNetworkOptions{}
	if spec.IPC != "none" {
		return fmt.Errorf("translate spec: ipc %q is not supported, only none", spec.IPC)
	}
	g.IpcNS = specgen.Namespace{NSMode: "none"} // ShmSize must stay unset with it
	return nil
}
