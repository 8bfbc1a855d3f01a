/* A libnvidia-ml.so.1 for nvitop, so that it draws the cards of the simulated rig beside the panel.
 *
 * The numbers come from the text file $RIGCTL_BENCH_CARDS, read again by each call that shows one:
 * a row a card, `mW limit_mW MHz mem_MHz util used_MiB total_MiB celsius fan pstate mJ pid`.
 * Only what nvitop asks is here. Everything else answers "not supported", as a GeForce does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, VERSION = 25 };
enum { MOST = 16 };

typedef unsigned long long u64;
typedef struct {
    unsigned index, power, limit, clock, memory_clock, util, used, total, celsius, fan, pstate, pid;
    u64 energy;
} Card;
typedef Card *Handle;

static Card cards[MOST];
static unsigned count;

static void look(void) {
    const char *path = getenv("RIGCTL_BENCH_CARDS");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return;
    unsigned row = 0;
    for (; row < MOST; row++) {
        Card c = {.index = row};
        if (fscanf(file, "%u %u %u %u %u %u %u %u %u %u %llu %u", &c.power, &c.limit, &c.clock,
                   &c.memory_clock, &c.util, &c.used, &c.total, &c.celsius, &c.fan, &c.pstate,
                   &c.energy, &c.pid) != 12)
            break;
        cards[row] = c;
    }
    if (row) count = row;
    fclose(file);
}

int nvmlInit_v2(void) { look(); return OK; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; look(); return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == OK ? "Success" : "Not Supported"; }

int nvmlSystemGetDriverVersion(char *out, unsigned n) { snprintf(out, n, "580.95.05"); return OK; }
int nvmlSystemGetNVMLVersion(char *out, unsigned n) { snprintf(out, n, "13.580.95.05"); return OK; }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return OK; }

int nvmlDeviceGetCount_v2(unsigned *out) { look(); *out = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *out) {
    if (index >= count) return INVALID;
    *out = &cards[index];
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *out) {
    unsigned index;
    if (sscanf(uuid, "GPU-%8x", &index) != 1 || index >= count) return NOT_FOUND;
    *out = &cards[index];
    return OK;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Handle *out) {
    unsigned domain, bus;
    if (sscanf(address, "%x:%x", &domain, &bus) != 2 || !bus || bus > count) return NOT_FOUND;
    *out = &cards[bus - 1];
    return OK;
}
int nvmlDeviceGetIndex(Handle h, unsigned *out) { *out = h->index; return OK; }
int nvmlDeviceGetMinorNumber(Handle h, unsigned *out) { *out = h->index; return OK; }
int nvmlDeviceGetName(Handle h, char *out, unsigned n) {
    (void)h;
    snprintf(out, n, "NVIDIA GeForce RTX 3090");
    return OK;
}
int nvmlDeviceGetUUID(Handle h, char *out, unsigned n) {
    snprintf(out, n, "GPU-%08x-0000-4000-8000-000000000000", h->index);
    return OK;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
} Pci;
int nvmlDeviceGetPciInfo_v3(Handle h, Pci *out) {
    memset(out, 0, sizeof *out);
    out->bus = h->index + 1;
    out->id = 0x220410de;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    snprintf(out->address, sizeof out->address, "00000000:%02X:00.0", out->bus);
    return OK;
}

static u64 mib(unsigned n) { return (u64)n << 20; }
typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } MemoryV2;
int nvmlDeviceGetMemoryInfo(Handle h, Memory *out) {
    look();
    *out = (Memory){mib(h->total), mib(h->total - h->used), mib(h->used)};
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(Handle h, MemoryV2 *out) {
    if (out->version != 0x02000028) return VERSION;
    look();
    out->total = mib(h->total);
    out->reserved = mib(346);
    out->used = mib(h->used);
    out->free = out->total - out->reserved - out->used;
    return OK;
}

int nvmlDeviceGetUtilizationRates(Handle h, unsigned *out) {
    look();
    out[0] = h->util;
    out[1] = h->util / 2;
    return OK;
}
int nvmlDeviceGetTemperature(Handle h, int sensor, unsigned *out) {
    (void)sensor; look(); *out = h->celsius; return OK;
}
int nvmlDeviceGetFanSpeed(Handle h, unsigned *out) { look(); *out = h->fan; return OK; }
int nvmlDeviceGetFanSpeed_v2(Handle h, unsigned fan, unsigned *out) {
    (void)fan; return nvmlDeviceGetFanSpeed(h, out);
}
int nvmlDeviceGetNumFans(Handle h, unsigned *out) { (void)h; *out = 2; return OK; }
int nvmlDeviceGetPowerUsage(Handle h, unsigned *out) { look(); *out = h->power; return OK; }
int nvmlDeviceGetPowerManagementLimit(Handle h, unsigned *out) { *out = h->limit; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(Handle h, unsigned *out) { *out = h->limit; return OK; }
int nvmlDeviceGetTotalEnergyConsumption(Handle h, u64 *out) { look(); *out = h->energy; return OK; }
int nvmlDeviceGetPerformanceState(Handle h, int *out) { look(); *out = (int)h->pstate; return OK; }
int nvmlDeviceGetClockInfo(Handle h, int kind, unsigned *out) {
    look();
    *out = kind == 2 ? h->memory_clock : h->clock;
    return OK;
}
int nvmlDeviceGetMaxClockInfo(Handle h, int kind, unsigned *out) {
    (void)h; *out = kind == 2 ? 9751 : 2100; return OK;
}
int nvmlDeviceGetPersistenceMode(Handle h, int *out) { (void)h; *out = 1; return OK; }
int nvmlDeviceGetCudaComputeCapability(Handle h, int *major, int *minor) {
    (void)h; *major = 8; *minor = 6; return OK;
}
int nvmlDeviceGetComputeMode(Handle h, int *out) { (void)h; *out = 0; return OK; }
int nvmlDeviceGetDisplayMode(Handle h, int *out) { (void)h; *out = 0; return OK; }
int nvmlDeviceGetDisplayActive(Handle h, int *out) { (void)h; *out = 0; return OK; }
int nvmlDeviceGetPcieThroughput(Handle h, int kind, unsigned *out) {
    (void)h; *out = kind ? 120 : 4500; return OK;
}

typedef struct { unsigned pid; u64 used; unsigned instance, compute; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Handle h, unsigned *n, Process *out) {
    look();
    unsigned held = h->pid ? 1 : 0;
    unsigned room = *n;
    *n = held;
    if (room < held || (held && !out)) return TOO_SMALL;
    if (held) out[0] = (Process){h->pid, mib(h->used), ~0u, ~0u};
    return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle h, unsigned *n, Process *out) {
    (void)h; (void)out; *n = 0; return OK;
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle h, unsigned *n, Process *out) {
    (void)h; (void)out; *n = 0; return OK;
}

#define UNSUPPORTED(name) int name(void) { return NOT_SUPPORTED; }
UNSUPPORTED(nvmlDeviceGetEccMode)
UNSUPPORTED(nvmlDeviceGetTotalEccErrors)
UNSUPPORTED(nvmlDeviceGetMemoryErrorCounter)
UNSUPPORTED(nvmlDeviceGetMigMode)
UNSUPPORTED(nvmlDeviceGetProcessUtilization)
UNSUPPORTED(nvmlDeviceGetEncoderUtilization)
UNSUPPORTED(nvmlDeviceGetDecoderUtilization)
UNSUPPORTED(nvmlDeviceGetFieldValues)
UNSUPPORTED(nvmlDeviceGetDriverModel)
UNSUPPORTED(nvmlDeviceGetDriverModel_v2)
