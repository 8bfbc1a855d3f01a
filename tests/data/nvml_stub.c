/* A libnvidia-ml.so.1 without a GPU: as much of NVML as a monitor of RTX 3090 cards asks for.
 *
 * Build:  cc -shared -fPIC -o libnvidia-ml.so.580.95.05 nvml_stub.c   (and link .so.1 to it)
 * State:  the text file named by NVML_STUB_CARDS, looked at anew at each call. A line a card:
 *         milliwatts limit_milliwatts pstate percent used_mib celsius fan sm_mhz mem_mhz
 *         millijoules reasons pid
 * Any program that loads NVML sees these cards, so that two monitors can be run side by side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_ARGUMENT = 2, UNSUPPORTED = 3, NO_SUCH = 6, TOO_SMALL = 7, BAD_VERSION = 25 };
enum { MOST = 16, CARD_MIB = 24576, RESERVED_MIB = 346 };

typedef unsigned int uint;
typedef unsigned long long wide;

struct card {
    uint index, power, limit, pstate, busy, used, heat, fan, sm, memory, pid;
    wide energy, reasons;
};
typedef struct card *handle;

static struct card cards[MOST];
static uint count;

static void look(void) {
    const char *name = getenv("NVML_STUB_CARDS");
    FILE *file = name ? fopen(name, "r") : NULL;
    char line[256];
    if (!file) return;
    count = 0;
    while (count < MOST && fgets(line, sizeof line, file)) {
        struct card c = {.index = count};
        if (sscanf(line, "%u %u %u %u %u %u %u %u %u %llu %llu %u", &c.power, &c.limit, &c.pstate,
                   &c.busy, &c.used, &c.heat, &c.fan, &c.sm, &c.memory, &c.energy, &c.reasons,
                   &c.pid) == 12)
            cards[count++] = c;
    }
    fclose(file);
}

/* -- the library itself ---------------------------------------------------------------------- */

int nvmlInitWithFlags(uint flags) { (void)flags; look(); return OK; }
int nvmlInit_v2(void) { look(); return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == UNSUPPORTED ? "Not Supported" : "Error"; }

static int text(char *out, uint size, const char *value) {
    if (strlen(value) >= size) return TOO_SMALL;
    strcpy(out, value);
    return OK;
}
int nvmlSystemGetDriverVersion(char *out, uint size) { return text(out, size, "580.95.05"); }
int nvmlSystemGetNVMLVersion(char *out, uint size) { return text(out, size, "13.580.95.05"); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return OK; }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return OK; }

/* -- finding a card -------------------------------------------------------------------------- */

int nvmlDeviceGetCount_v2(uint *out) { look(); *out = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(uint index, handle *out) {
    if (index >= count) return BAD_ARGUMENT;
    *out = &cards[index];
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, handle *out) {
    uint index;
    if (sscanf(uuid, "GPU-5708%4x", &index) != 1 || index >= count) return NO_SUCH;
    *out = &cards[index];
    return OK;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, handle *out) {
    uint domain, bus;
    if (sscanf(address, "%x:%x", &domain, &bus) != 2 || bus == 0 || bus > count) return NO_SUCH;
    *out = &cards[bus - 1];
    return OK;
}
int nvmlDeviceGetIndex(handle c, uint *out) { *out = c->index; return OK; }
int nvmlDeviceGetMinorNumber(handle c, uint *out) { *out = c->index; return OK; }
int nvmlDeviceGetName(handle c, char *out, uint size) {
    (void)c;
    return text(out, size, "NVIDIA GeForce RTX 3090");
}
int nvmlDeviceGetUUID(handle c, char *out, uint size) {
    snprintf(out, size, "GPU-5708%04x-7374-4662-8000-000000000000", c->index);
    return OK;
}
struct bus { char legacy[16]; uint domain, bus, device, id, subsystem; char address[32]; };
int nvmlDeviceGetPciInfo_v3(handle c, struct bus *out) {
    memset(out, 0, sizeof *out);
    out->bus = c->index + 1;
    out->id = 0x220410de;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    snprintf(out->address, sizeof out->address, "00000000:%02X:00.0", out->bus);
    return OK;
}

/* -- one number each ------------------------------------------------------------------------- */

#define NUMBER(function, type, value) \
    int function(handle c, type *out) { look(); *out = (value); return OK; }
NUMBER(nvmlDeviceGetPowerUsage, uint, c->power)
NUMBER(nvmlDeviceGetPowerManagementLimit, uint, c->limit)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, uint, c->limit)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, uint, 350000 + 0 * c->index)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, wide, c->energy)
NUMBER(nvmlDeviceGetPerformanceState, int, (int)c->pstate)
NUMBER(nvmlDeviceGetFanSpeed, uint, c->fan)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, wide, c->reasons)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, wide, c->reasons)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, uint, 4 + 0 * c->index)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, uint, 16 + 0 * c->index)
NUMBER(nvmlDeviceGetPersistenceMode, int, 1 + 0 * (int)c->index)
NUMBER(nvmlDeviceGetComputeMode, int, 0 * (int)c->index)
NUMBER(nvmlDeviceGetDisplayActive, int, 0 * (int)c->index)
NUMBER(nvmlDeviceGetDisplayMode, int, 0 * (int)c->index)

int nvmlDeviceGetClockInfo(handle c, int kind, uint *out) {
    look();
    *out = kind == 2 ? c->memory : c->sm;
    return OK;
}
int nvmlDeviceGetMaxClockInfo(handle c, int kind, uint *out) {
    (void)c;
    *out = kind == 2 ? 9751 : 2100;
    return OK;
}
int nvmlDeviceGetTemperature(handle c, int sensor, uint *out) {
    (void)sensor;
    look();
    *out = c->heat;
    return OK;
}
struct heat { uint version; int sensor, value; };
int nvmlDeviceGetTemperatureV(handle c, struct heat *out) {
    if (out->version != 0x100000C) return BAD_VERSION;
    look();
    out->value = (int)c->heat;
    return OK;
}
int nvmlDeviceGetPcieThroughput(handle c, int counter, uint *out) {
    (void)c;
    *out = counter == 0 ? 4500 : 120;
    return OK;
}
int nvmlDeviceGetPowerManagementLimitConstraints(handle c, uint *low, uint *high) {
    (void)c;
    *low = 100000;
    *high = 350000;
    return OK;
}
int nvmlDeviceSetPowerManagementLimit(handle c, uint limit) { (void)c; (void)limit; return 4; }
int nvmlDeviceGetCudaComputeCapability(handle c, int *major, int *minor) {
    (void)c;
    *major = 8;
    *minor = 6;
    return OK;
}
struct rates { uint gpu, memory; };
int nvmlDeviceGetUtilizationRates(handle c, struct rates *out) {
    look();
    out->gpu = c->busy;
    out->memory = c->busy / 2;
    return OK;
}

/* -- memory and who holds it ----------------------------------------------------------------- */

#define MIB(n) ((wide)(n) << 20)
struct memory { wide total, free, used; };
int nvmlDeviceGetMemoryInfo(handle c, struct memory *out) {
    look();
    out->total = MIB(CARD_MIB);
    out->used = MIB(c->used + RESERVED_MIB);
    out->free = out->total - out->used;
    return OK;
}
struct memory2 { uint version; wide total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(handle c, struct memory2 *out) {
    if (out->version != 0x02000028) return BAD_VERSION;
    look();
    out->total = MIB(CARD_MIB);
    out->reserved = MIB(RESERVED_MIB);
    out->used = MIB(c->used);
    out->free = out->total - out->reserved - out->used;
    return OK;
}
struct holder { uint pid; wide used; uint instance, compute; };
int nvmlDeviceGetComputeRunningProcesses_v3(handle c, uint *room, struct holder *out) {
    look();
    uint had = *room, held = c->pid ? 1 : 0;
    *room = held;
    if (had < held) return TOO_SMALL;
    if (held) out[0] = (struct holder){c->pid, MIB(c->used), ~0u, ~0u};
    return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(handle c, uint *room, struct holder *out) {
    (void)c;
    (void)out;
    *room = 0;
    return OK;
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(handle c, uint *room, struct holder *out) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(c, room, out);
}

/* -- what a gaming card does not report ------------------------------------------------------- */

#define LACKS(function) int function(void) { return UNSUPPORTED; }
LACKS(nvmlDeviceGetEncoderUtilization)
LACKS(nvmlDeviceGetDecoderUtilization)
LACKS(nvmlDeviceGetEccMode)
LACKS(nvmlDeviceGetTotalEccErrors)
LACKS(nvmlDeviceGetMigMode)
LACKS(nvmlDeviceGetProcessUtilization)
LACKS(nvmlDeviceGetMaxMigDeviceCount)
LACKS(nvmlDeviceGetFieldValues)
LACKS(nvmlDeviceGetDriverModel_v2)
LACKS(nvmlDeviceGetDriverModel)
