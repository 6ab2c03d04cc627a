/** One of the likeliest classes of a picture. */
export interface Prediction {
  index: number;
  /** Its name in the file, or its index where the file has no names. */
  name: string;
  probability: number;
}

/** Predictions, the likeliest first, and how long the network took. */
export type Predictions = Prediction[] & { milliseconds: number };

/** RGBA pixels, as `ImageData` has them. */
export interface Pixels {
  data: Uint8ClampedArray | Uint8Array;
  width: number;
  height: number;
}

export type Picture = Pixels | Blob | CanvasImageSource;

export interface LoadOptions {
  /** Layers with one-bit weights take 8-bit activations: faster, slightly less exact. */
  int8?: boolean;
  /** Run in a Worker, so that the page stays responsive; the default in pages, elsewhere false. */
  worker?: boolean;
  /** Where the runtime is, if not beside this module: its address, or the compiled module. */
  wasm?: string | URL | WebAssembly.Module;
}

/** A loaded network. Calls are computed one after the other; a call that fails leaves the network as it was. */
export declare class Network {
  private constructor();
  /** Channels, height and width of an image. */
  readonly inputShape: [channels: number, height: number, width: number];
  /** How many numbers it computes for an image. */
  readonly outputs: number;
  /** The names of its classes; null if the file has none. */
  readonly classes: string[] | null;
  readonly int8: boolean;
  /** The size of its file. */
  readonly bytes: number;

  /**
   * Return the likeliest classes of a picture, which is scaled so that it just covers the input, and its middle kept.
   * Rejects with an Error if it is no picture, or if the network takes images that are neither grey nor RGB.
   */
  run(picture: Picture, options?: { top?: number }): Promise<Predictions>;

  /**
   * Return `outputs` numbers for each image: float32 (N, C, H, W), already normalised, or bytes (N, H, W, C), which are
   * normalised as the file says. Rejects with an Error if their number does not suit or one is not finite.
   */
  logits(images: Float32Array | Uint8Array | Uint8ClampedArray): Promise<Float32Array>;

  /** Fix the ranges of 8-bit activations to those of these images, float32 (N, C, H, W). */
  calibrate(images: Float32Array): Promise<void>;

  /** Give back its memory and its Worker. */
  close(): void;
}

/**
 * Return the network in a packed file, given as its address, a Response, a Blob (such as a File) or its bytes. Rejects
 * with an Error that says why if the file cannot be fetched, is no packed network or is damaged, or if the browser has no
 * WebAssembly with SIMD.
 */
export declare function load(
  source: string | URL | Response | Blob | ArrayBuffer | Uint8Array,
  options?: LoadOptions,
): Promise<Network>;
