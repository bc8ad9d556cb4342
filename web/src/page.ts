// What is loaded with the page. The build imports this file into every module (`inject` in build.mjs): all
// entry points then reach the same code, and esbuild makes one chunk of it instead of one for each set of its users.
import "./App";
import "./plugins/start";
import "./views";
