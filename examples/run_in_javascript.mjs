// Run a policy that `toppo export` wrote, with onnxruntime-web: `npm install onnxruntime-web`, then
//
//     echo '[0.01, 0.02, 0.03, 0.04]' | node run_in_javascript.mjs policy.onnx
//
// prints the most likely action for every line of standard input.  In a browser, `create` takes the address of the file.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import * as ort from "onnxruntime-web";

export async function policyFrom(path) {
  const session = await ort.InferenceSession.create(await readFile(path), { executionProviders: ["wasm"] });
  return async (observation) => {
    const input = new ort.Tensor("float32", Float32Array.from(observation), [1, observation.length]);
    const { action } = await session.run({ observation: input });
    return Array.from(action.data, Number);
  };
}

const policy = await policyFrom(process.argv[2]);
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await policy(JSON.parse(line))));
}
