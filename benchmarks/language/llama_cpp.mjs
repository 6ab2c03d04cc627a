// What llama.cpp makes of a GGUF file: `node llama_cpp.mjs FOLDER` with node-llama-cpp in FOLDER/node_modules.
// Standard input: {path, sequences: [[token]], texts: [text], threads: number}.
// Standard output, one line: {likelihoods, tokens, texts}.
import fs from "node:fs";
import {pathToFileURL} from "node:url";

const home = `${process.argv[2]}/node_modules/node-llama-cpp/dist/index.js`;
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(home));
const {path, sequences, texts, threads} = JSON.parse(fs.readFileSync(0, "utf8"));
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: path});
const longest = Math.max(256, ...sequences.map((tokens) => tokens.length));
const context = await model.createContext({contextSize: longest, threads});
const sequence = context.getSequence();

const likelihoods = [];
for (const tokens of sequences) {
    await sequence.clearHistory();
    const asked = tokens.map((token) => [token, {generateNext: {probabilities: true}}]);
    const results = await sequence.controlledEvaluate(asked);
    likelihoods.push(tokens.slice(1).map((token, place) => Math.log(results[place].next.probabilities.get(token))));
}

const tokens = texts.map((text) => model.tokenize(text));
console.log(JSON.stringify({likelihoods, tokens, texts: tokens.map((each) => model.detokenize(each))}));
