// LAMINA_API marks the symbols that liblamina.so exports; all others are hidden.
#pragma once

#if defined(LAMINA_BUILDING)
#define LAMINA_API __attribute__((visibility("default")))
#else
#define LAMINA_API
#endif
