/** A saved program in Java, by lamina_jni.c over the C interface. An error is a RuntimeException with Lamina's text. */
public final class LaminaModule implements AutoCloseable {
    static {
        System.loadLibrary("lamina_jni");
    }

    /** A float tensor: row-major elements and the lengths of its axes. */
    public record Floats(float[] values, long[] shape) {}

    private long handle;

    public LaminaModule(String path) {
        handle = load(path);
    }

    /** The result of this name of a call with one tensor for each name. Variables that the function assigns change. */
    public Floats call(String function, String result, String[] names, Floats... arguments) {
        float[][] values = new float[arguments.length][];
        long[][] shapes = new long[arguments.length][];
        for (int i = 0; i < arguments.length; ++i) {
            values[i] = arguments[i].values();
            shapes[i] = arguments[i].shape();
        }
        return call(handle, function, result, names, values, shapes);
    }

    /** The value of a Variable. */
    public Floats read(String variable) {
        return read(handle, variable);
    }

    @Override
    public void close() {
        free(handle);
        handle = 0;
    }

    private static native long load(String path);

    private static native Floats call(long handle, String function, String result, String[] names, float[][] values, long[][] shapes);

    private static native Floats read(long handle, String variable);

    private static native void free(long handle);
}
