import { defineConfig } from "vite";

// One script and one style sheet under fixed names: the export inlines them, and the build is committed.
export default defineConfig({
  base: "./",
  publicDir: false,
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    lib: {
      entry: "src/main.tsx",
      formats: ["iife"],
      name: "viewer",
      fileName: () => "app.js",
      cssFileName: "app",
    },
  },
  plugins: [
    {
      name: "index",
      generateBundle() {
        this.emitFile({ type: "asset", fileName: "index.html", source: INDEX });
      },
    },
  ],
});

const INDEX = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>docagent-rl</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="app.css" />
    <script defer src="app.js"></script>
  </head>
  <body>
    <div id="root"></div>
    <noscript>This page needs JavaScript.</noscript>
  </body>
</html>
`;
