package offline

// ToolsVersion is the version of the files that the tools read and of the reports that they write.
const ToolsVersion = "tools.proviso.dev/v1alpha1"
