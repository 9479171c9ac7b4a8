// LAMINA_API marks what liblamina.so exports; everything else stays hidden.
#pragma once

#if defined(LAMINA_BUILDING)
#define LAMINA_API __attribute__((visibility("default")))
#else
#define LAMINA_API
#endif
