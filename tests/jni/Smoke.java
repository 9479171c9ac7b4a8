/** Loads a program, predicts, trains a step and prints the bits of what came out: java Smoke FOLDER */
public final class Smoke {
    private static void print(String name, LaminaModule.Floats tensor) {
        StringBuilder line = new StringBuilder(name);
        for (long length : tensor.shape()) line.append(' ').append(length);
        line.append(':');
        for (float value : tensor.values()) line.append(' ').append(Integer.toHexString(Float.floatToRawIntBits(value)));
        System.out.println(line);
    }

    public static void main(String[] arguments) {
        LaminaModule.Floats x = new LaminaModule.Floats(new float[] {1, 2, 3, 4, 5, 6}, new long[] {2, 3});
        LaminaModule.Floats y = new LaminaModule.Floats(new float[] {1, 0}, new long[] {2, 1});
        try (LaminaModule policy = new LaminaModule(arguments[0])) {
            print("before", policy.call("score", "output", new String[] {"x"}, x));
            print("loss", policy.call("step", "loss", new String[] {"x", "y"}, x, y));
            print("w", policy.read("w"));
            print("after", policy.call("score", "output", new String[] {"x"}, x));
            try {
                policy.call("score", "output", new String[] {"x"}, y);
                System.out.println("no error");
            } catch (RuntimeException error) {
                System.out.println("error: " + error.getMessage().lines().findFirst().get());
            }
        }
        try {
            new LaminaModule(arguments[0] + "/nothing");
            System.out.println("no error");
        } catch (RuntimeException error) {
            System.out.println("error: " + error.getMessage().lines().findFirst().get());
        }
    }
}
