// Stands in for glslc when vulkan-shaders-gen runs: records the command instead of compiling.
//
//   recording_glslc [glslc options] -o OUT [-MF FILE]
//
// Appends the arguments, each ended by NUL and all by a newline, to <this program>.log. OUT becomes
// a valid module with an empty main, which carries the shader's name in an OpString: whoever holds
// the module later (the host code under record_pipelines.h) can tell which shader it stands for.

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD(count, opcode) (((uint32_t) (count) << 16) | (opcode))

static void die(const char * what) {
    perror(what);
    exit(1);
}

// one write, so that the lines of parallel processes do not mix
static void append_line(const char * program, int argc, char ** argv) {
    char   path[4096];
    size_t size = 1;
    for (int i = 1; i < argc; i++) {
        size += strlen(argv[i]) + 1;
    }
    char * line = malloc(size);
    char * end  = line;
    for (int i = 1; line && i < argc; i++) {
        end = stpcpy(end, argv[i]) + 1;
    }
    if (!line || snprintf(path, sizeof(path), "%s.log", program) >= (int) sizeof(path)) {
        die("no room for the command");
    }
    *end = '\n';
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (file < 0 || write(file, line, size) != (ssize_t) size || close(file) != 0) {
        die(path);
    }
}

static void write_module(const char * path, const char * name) {
    const uint32_t head[] = {
        0x07230203, 0x00010000, 0, 10, 0,            // magic, version 1.0, generator, bound, schema
        WORD(2, 17), 1,                              // OpCapability Shader
        WORD(3, 14), 0, 1,                           // OpMemoryModel Logical GLSL450
        WORD(5, 15), 5, 4, 0x6e69616d, 0,            // OpEntryPoint GLCompute %4 "main"
        WORD(6, 16), 4, 17, 64, 1, 1,                // OpExecutionMode %4 LocalSize 64 1 1
    };
    const uint32_t tail[] = {
        WORD(2, 19), 2,                              // %2 = OpTypeVoid
        WORD(3, 33), 3, 2,                           // %3 = OpTypeFunction %2
        WORD(5, 54), 2, 4, 0, 3,                     // %4 = OpFunction %2 None %3
        WORD(2, 248), 5, WORD(1, 253), WORD(1, 56),  // %5 = OpLabel, OpReturn, OpFunctionEnd
    };
    uint32_t string[2 + 64] = { 0, 9 };              // %9 = OpString
    const uint32_t words = 2 + (uint32_t) strlen(name) / 4 + 1;
    if (words > sizeof(string) / sizeof(string[0])) {
        die("the name of the shader is too long");
    }
    string[0] = WORD(words, 7);
    memcpy(&string[2], name, strlen(name));
    FILE * file = fopen(path, "wb");
    if (!file || fwrite(head, sizeof(head), 1, file) != 1 || fwrite(string, 4, words, file) != words ||
        fwrite(tail, sizeof(tail), 1, file) != 1 || fclose(file) != 0) {
        die(path);
    }
}

int main(int argc, char ** argv) {
    const char * out = NULL;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "-o") == 0) {
            out = argv[i + 1];
        } else if (strcmp(argv[i], "-MF") == 0) {
            FILE * file = fopen(argv[i + 1], "w");
            if (!file || fclose(file) != 0) {
                die(argv[i + 1]);
            }
        }
    }
    if (!out) {
        fprintf(stderr, "recording_glslc: no -o\n");
        return 1;
    }
    append_line(argv[0], argc, argv);
    char name[240];
    const char * base = strrchr(out, '/') ? strrchr(out, '/') + 1 : out;
    snprintf(name, sizeof(name), "%s", base);
    char * dot = strrchr(name, '.');
    if (dot) {
        *dot = '\0';
    }
    write_module(out, name);
    return 0;
}
